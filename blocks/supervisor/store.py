"""Where the supervisor remembers: documents replaced as a whole, and a log that only grows."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, TypeVar

from blocks.supervisor import scope
from blocks.supervisor.failures import Failure, Refusal

_FULL = (errno.ENOSPC, errno.EDQUOT)
_RESERVE = "reserve"
_PIECES, _PIECE_BYTES = 128, 32 << 10
"""Of the reserve: given up one by one, each is room for a write, and a file's place in itself."""
_MIB = 1 << 20

_T = TypeVar("_T")


class Store:
    """The state folder."""

    def __init__(self, root: Path) -> None:
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

    def keep_reserve(self) -> None:
        """Have the whole reserve lie there: room for what is written once the disk is full.

        Raises:
            Refusal: There is no room for it; what was there of it is left as it was.
        """
        folder = self.root / _RESERVE
        pieces = [folder / f"piece-{number:03}" for number in range(_PIECES)]
        made = []
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            for piece in pieces:
                if not piece.exists() or piece.stat().st_size < _PIECE_BYTES:
                    made.append(piece)
                    _allocate(piece)
        except OSError as error:
            for piece in made:
                piece.unlink(missing_ok=True)
            if not is_full(error):
                raise
            raise self._no_room() from error

    def _no_room(self) -> Refusal:
        needed = _PIECES * _PIECE_BYTES // _MIB
        return Refusal(
            "no-space",
            f"{self.root} has no room for the {needed} MiB that a redeploy keeps in reserve, "
            f"so that it can always go back; {_free(self.root)} are free there.",
            f"Free space (df -h {self.root}; df -i {self.root}), then ask again.",
        )

    def log(self, event: str, **fields: Any) -> None:
        """Append one line to the operation log; it is on the disk when this returns."""
        line = json.dumps({"time": time.time(), "event": event, **fields}).encode() + b"\n"
        with_room(lambda: self._append(line))

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self.log_path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with contextlib.closing(os.fdopen(descriptor, "rb+", buffering=0)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            left = _missing_newline(file) + line
            try:
                while left:  # a disk that is nearly full takes a part
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), end)
                raise


def with_room(act: Callable[[], _T]) -> _T:
    """Do what writes something that must not get lost; a full disk costs pieces of the reserve."""
    while True:
        try:
            return act()
        except OSError as error:
            if not is_full(error) or not _give_up_piece():
                raise


def is_full(error: OSError) -> bool:
    """Tell whether a disk, or what somebody may use of it, is full."""
    return error.errno in _FULL


def told(error: OSError, *folders: Path) -> Failure:
    """Return what a person is told of an error of the host: of a full disk, what is free where."""
    where = f" ({error.filename})" if error.filename else ""
    what = f"{error.strerror or error}{where}"
    if not is_full(error):
        return Failure(
            "host-failed", f"The host itself failed: {what}.", "Look at it: dmesg, df -h, mount."
        )
    free = "; ".join(f"{_free(folder)} are free in {folder}" for folder in folders)
    return Failure("no-space", f"The disk is full: {what}. {free}.", "Free space, then go on.")


def _allocate(piece: Path) -> None:
    descriptor = os.open(piece, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _PIECE_BYTES)
    finally:
        os.close(descriptor)


def _give_up_piece() -> bool:
    for piece in sorted((scope.now().state / _RESERVE).glob("piece-*"), reverse=True):
        with contextlib.suppress(FileNotFoundError):
            piece.unlink()
            return True
    return False


def _free(folder: Path) -> str:
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    files = f" and {found.f_ffree} files" if found.f_files else ""  # some do not count them
    return f"{found.f_bfree * found.f_frsize / _MIB:.1f} MiB{files}"


def _missing_newline(file: Any) -> bytes:
    if file.seek(0, os.SEEK_END) == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


def key_of(environment: str) -> str:
    """Return a short name for an environment's path, the same through whatever links."""
    path = Path(environment)
    real = os.fsencode(path.parent.resolve() / path.name)
    return hashlib.sha256(real).hexdigest()[:32]


def read(path: Path) -> dict[str, Any] | None:
    """Return a document, or None when there is none."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return value if isinstance(value, dict) else None


def write(path: Path, document: dict[str, Any], *, durable: bool = True) -> None:
    """Replace a document as a whole.

    If durable, it is on the disk when this returns, and the reserve is there for it. If not, it
    may get lost: nothing waits for it, and nothing fails because the disk is full.
    """
    text = json.dumps(document)
    if durable:
        write_text(path, text)
        return
    try:
        _replace(path, text, durable=False)
    except OSError as error:
        if not is_full(error):
            raise


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole; it is on the disk when this returns."""
    with_room(lambda: _replace(path, text))
    sync_folder(path.parent)


def _replace(path: Path, text: str, *, durable: bool = True) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


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
    descriptor = with_room(lambda: _opened(path))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
