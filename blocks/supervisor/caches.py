"""Folders of a cache that a broken-off build has left: `set-aside`."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, foreign, processes
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

_CACHE = ".cache"
_BUILT = "torch_extensions"


def set_aside(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Rename a folder in a cache of torch's extensions, as its owner, to `<path>.aside-<n>`.

    Raises:
        Failure: It is no such folder, the way to it could be another user's, or it was not renamed.
    """
    path = Path(arguments["path"])
    noted = work.recall("aside")
    if noted is not None and not path.exists():
        return noted
    aside = {"path": os.fspath(path), "aside": _free_name(path)}
    owner = _owner(path)
    work.note("aside", aside)
    ended = processes.run(commands.as_user(*owner, commands.rename(aside["path"], aside["aside"])))
    if ended.exit != 0 or path.exists():
        raise _not(path, foreign.last_words(ended.errors, 500))
    return aside


def _owner(path: Path) -> tuple[int, int]:
    """Return who owns a folder, to which nobody else can have laid the way."""
    parts = path.parts
    if _CACHE not in parts or _BUILT not in parts[parts.index(_CACHE) :]:
        raise _not(path, f"it is not in a {_CACHE} folder of {_BUILT}")
    try:
        found = path.lstat()
        for one in (path, *path.parents):
            here = one.lstat()
            if not stat.S_ISDIR(here.st_mode) or here.st_uid not in (0, found.st_uid):
                raise _not(path, f"{one} is no folder of its owner")
    except OSError as error:
        raise _not(path, error.strerror or str(error)) from error
    return found.st_uid, found.st_gid


def _free_name(path: Path) -> str:
    names = (f"{path}.aside-{number}" for number in range(1, 1000))
    return next(name for name in names if not os.path.lexists(name))


def _not(path: Path, why: str) -> Failure:
    return Failure("not-set-aside", f"{path} was left where it is: {why}.", "Move it away by hand.")
