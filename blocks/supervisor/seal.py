"""Tells whether an environment is still what it was: one digest over its files.

Over the path, size and time of change of each, byte code apart, which Python writes as it goes.
None is read, so that it can be asked of 60,000 files at any time; `verify` reads them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_KIND = "files:"


def seal(path: Path) -> str:
    """Return the digest of an environment."""
    digest = hashlib.sha256()
    for line in _files(os.fspath(path)):
        digest.update(os.fsencode(line) + b"\0")
    return _KIND + digest.hexdigest()


def holds(sealed: str | None, path: Path) -> bool | None:
    """Return whether an environment is as it was when it was sealed.

    Args:
        sealed: Its digest then.
        path: Where it is now.

    Returns:
        None: it was not sealed, or by a release of this program that did so in another way.
    """
    if sealed is None or not sealed.startswith(_KIND):
        return None
    return sealed == seal(path)


def _files(top: str) -> Iterator[str]:
    for parent, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]  # noqa: PTH114, PTH118
        for name in sorted([*files, *links]):
            path = os.path.join(parent, name)  # noqa: PTH118
            with contextlib.suppress(FileNotFoundError):  # it went while we looked
                found = os.lstat(path)
                aim = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""  # noqa: PTH115
                yield f"{path[len(top) :]} {found.st_size} {found.st_mtime_ns} {aim}"
