"""The supervisor as one executable file: a zip archive that the host's own Python runs."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import blocks

_ROOT = Path(blocks.__file__).resolve().parent.parent
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = "blocks/supervisor_entry.py"
_CARRIED = ("blocks/supervisor", "tasks/startup")
_PACKAGES = ("blocks/__init__.py", "tasks/__init__.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Archive:
    """The file's bytes, and their SHA-256, which is its version."""

    data: bytes
    version: str


@functools.cache
def archive() -> Archive:
    """Build the archive; the same sources always give the same bytes.

    Stored, not compressed: compressed bytes depend on the machine's zlib, and two controllers
    would replace each other's file for ever.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, text in sorted(_contents().items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            file.writestr(entry, text)
    data = _SHEBANG + buffer.getvalue()
    return Archive(data, hashlib.sha256(data).hexdigest())


def _contents() -> dict[str, str]:
    entry = (_ROOT / _MAIN).read_text(encoding="utf-8")
    texts = {"__main__.py": entry, "pynvml.py": _pynvml()}
    texts.update(dict.fromkeys(_PACKAGES, ""))
    for folder in _CARRIED:
        for path in sorted((_ROOT / folder).glob("*.py")):
            texts[f"{folder}/{path.name}"] = path.read_text(encoding="utf-8")
    return texts


def _pynvml() -> str:
    """Return the installed `pynvml` module, which is one file, under its own licence's name."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise RuntimeError("nvidia-ml-py is not installed.")
    about = importlib.metadata.metadata("nvidia-ml-py")
    licence = about["License"] if "License" in about else about["License-Expression"]
    line = f"# nvidia-ml-py {about['Version']}, carried unchanged; licence: {licence}\n"
    return line + Path(spec.origin).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.buffer.write(archive().data)
