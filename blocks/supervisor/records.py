"""Compares an environment's files with the hashes that its packages recorded of them."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import csv
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from blocks.supervisor import environment

_CHUNK = 1 << 20
_ALGORITHMS = ("sha256", "sha384", "sha512")


class Compared(NamedTuple):
    """The files that were compared and what came out."""

    checked: int
    differing: list[str]
    missing: list[str]
    recorded: frozenset[str]


def compare(folder: Path) -> Compared:
    """Compare every recorded file of an environment."""
    expected: dict[str, set[str]] = {}
    recorded: set[str] = set()
    for info in environment.dist_infos(folder):
        for path, digest in _entries(info):
            recorded.add(path)
            if digest and not _written_on_installation(path, folder):
                expected.setdefault(path, set()).add(digest)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda path: _digests(path, expected[path]), expected))
    outcome = list(zip(expected, found))
    return Compared(
        checked=len(outcome),
        differing=sorted(
            path for path, got in outcome if got is not None and not got & expected[path]
        ),
        missing=sorted(path for path, got in outcome if got is None),
        recorded=frozenset(recorded),
    )


def unrecorded_sources(folder: Path, recorded: frozenset[str]) -> list[str]:
    """Return the .py files among the packages that no package recorded."""
    found = []
    for site in environment.site_packages(folder):
        for parent, folders, files in os.walk(site):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found += [
                path
                for path in (os.path.join(parent, name) for name in files if name.endswith(".py"))  # noqa: PTH118
                if path not in recorded
            ]
    return sorted(found)


def _entries(info: Path) -> Iterator[tuple[str, str]]:
    """Yield path and hash of the lines of a RECORD."""
    with (
        contextlib.suppress(OSError),
        (info / "RECORD").open(encoding="utf-8", errors="replace", newline="") as file,
    ):
        for row in csv.reader(file):
            if row and row[0] and "\x00" not in row[0]:
                path = os.path.normpath(info.parent / row[0])
                yield path, row[1] if len(row) > 1 else ""


def _written_on_installation(path: str, folder: Path) -> bool:
    """Tell of files whose content the installer makes: byte code, and scripts with a shebang."""
    if "/__pycache__/" in path or path.endswith((".pyc", ".dist-info/RECORD")):
        return True
    if os.path.dirname(path) != os.fspath(folder / "bin"):  # noqa: PTH120
        return False
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        return file.read(2) == b"#!"
    return False


def _digests(path: str, expected: set[str]) -> set[str] | None:
    """Return the file's hashes in the algorithms expected of it, or None if it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return set()
        names = {one.partition("=")[0] for one in expected} & set(_ALGORITHMS)
        hashes = {name: hashlib.new(name) for name in names}
        buffer = memoryview(bytearray(_CHUNK))
        while size := file.readinto(buffer):
            for one in hashes.values():
                one.update(buffer[:size])
    return {f"{name}={_encoded(one.digest())}" for name, one in hashes.items()}


def _encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
