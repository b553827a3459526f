"""Writes small wheels, for environments that tests make for themselves."""

import zipfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path


def wheel(folder: Path, name: str, version: str, files: dict[str, str], **more: str) -> Path:
    """Write a wheel; `requires` and `scripts` go into its metadata."""
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {one}\n" for one in more.get("requires", "").split())
    files = {
        **files,
        f"{info}/METADATA": f"Name: {name}\nVersion: {version}\n{requires}\nName: in the text\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if "scripts" in more:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{more['scripts']}\n"
    rows = [f"{path},sha256={digest(text)},{len(text)}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return path


def digest(text: str) -> str:
    return urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()
