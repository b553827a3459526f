"""Where the supervisor remembers: documents replaced as a whole, and a log that only grows."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path("/var/lib/vllm-redeploy")


class Store:
    """The state folder."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        for folder in (root, self.operations, self.locks, self.releases):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def operations(self) -> Path:
        """The folder of the operations."""
        return self.root / "operations"

    @property
    def locks(self) -> Path:
        """The folder of the locks."""
        return self.root / "locks"

    @property
    def releases(self) -> Path:
        """The folder of the records."""
        return self.root / "releases"

    @property
    def log_path(self) -> Path:
        """The operation log."""
        return self.root / "operations.jsonl"

    def log(self, event: str, **fields: Any) -> None:
        """Append one line to the operation log; it is on the disk when this returns."""
        line = json.dumps({"time": time.time(), "event": event, **fields}).encode() + b"\n"
        descriptor = os.open(self.log_path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with contextlib.closing(os.fdopen(descriptor, "rb+", buffering=0)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(_missing_newline(file) + line)
            os.fsync(file.fileno())


def _missing_newline(file: Any) -> bytes:
    if file.seek(0, os.SEEK_END) == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


def read(path: Path) -> dict[str, Any] | None:
    """Return a document, or None when there is none."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return value if isinstance(value, dict) else None


def write(path: Path, document: dict[str, Any], *, durable: bool = True) -> None:
    """Replace a document as a whole; if durable, it is on the disk when this returns."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def guarded(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock file while the block runs; yield whether it is held (never if not waiting)."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
