"""Builds wheels in pure Python: the same input gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Wheel:
    """What goes into a wheel: where it is installed (path to bytes) and what it asks for."""

    name: str
    version: str
    summary: str
    files: Mapping[str, bytes]
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    tag: str = "py3-none-any"

    @property
    def filename(self) -> str:
        """The file's name, as the wheel format spells it."""
        return f"{escaped(self.name)}-{self.version}-{self.tag}.whl"


@dataclass(frozen=True)
class Built:
    """A wheel as a file."""

    name: str
    version: str
    filename: str
    data: bytes
    metadata: bytes

    @property
    def sha256(self) -> str:
        """The digest that an index gives for the file."""
        return hashlib.sha256(self.data).hexdigest()


def normalised(name: str) -> str:
    """Return a package's name as PEP 503 compares it.

    >>> normalised("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def escaped(name: str) -> str:
    """Return a package's name as file and module names spell it."""
    return normalised(name).replace("-", "_")


def build(wheel: Wheel) -> Built:
    """Return the wheel as a zip file with METADATA, WHEEL, entry points and RECORD."""
    info = f"{escaped(wheel.name)}-{wheel.version}.dist-info"
    metadata = _metadata(wheel)
    files = {
        **wheel.files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": _wheel(wheel),
    }
    if wheel.scripts:
        files[f"{info}/entry_points.txt"] = _entry_points(wheel)
    record = f"{info}/RECORD"
    rows = [f"{path},{digest(data)},{len(data)}" for path, data in files.items()]
    files[record] = "".join(f"{row}\n" for row in [*rows, f"{record},,"]).encode()
    return Built(wheel.name, wheel.version, wheel.filename, _zip(files), metadata)


def digest(data: bytes) -> str:
    """Return a file's digest as RECORD writes it."""
    hashed = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()


def _zip(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return target.getvalue()


def _metadata(wheel: Wheel) -> bytes:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {wheel.name}",
        f"Version: {wheel.version}",
        f"Summary: {wheel.summary}",
        "Requires-Python: >=3.10",
        *(f"Requires-Dist: {requirement}" for requirement in wheel.requires),
        *(f"Provides-Extra: {extra}" for extra in wheel.extras),
    ]
    return ("\n".join(lines) + "\n").encode()


def _wheel(wheel: Wheel) -> bytes:
    python, abi, platform = wheel.tag.split("-")
    pure = "true" if platform == "any" else "false"
    tags = "".join(f"Tag: {one}-{abi}-{platform}\n" for one in python.split("."))
    head = f"Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: {pure}\n"
    return (head + tags).encode()


def _entry_points(wheel: Wheel) -> bytes:
    rows = [f"{name} = {target}\n" for name, target in wheel.scripts.items()]
    return ("[console_scripts]\n" + "".join(rows)).encode()
