"""Exchanges an environment with its sibling at the old path: `switch`.

The intent, with the inodes of both folders, is written first. So a second run sees how far the
first one came, and at every moment each folder lies at one of the three paths.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from blocks.supervisor import scope, store
from blocks.supervisor.failures import Failure
from blocks.supervisor.ledger import LIVE, PREVIOUS, Ledger
from blocks.supervisor.start import stop
from blocks.supervisor.work import Work

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_WORDS = {
    "old": "the old environment",
    "new": "the new environment",
    "nothing": "nothing",
    "something": "something else",
    "unknown": "what could not be looked at",
}
_STOP_SECONDS = 600
_NOT_HERE = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP)


class Paths(NamedTuple):
    """The three places: where the environment lies, the new one, and where the old one goes."""

    live: Path
    sibling: Path
    previous: Path


def switch(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Put the sibling at the environment's path and the old environment at `previous`.

    A unit that runs again by now (after a reboot, say) is stopped first: nothing is to run from
    a folder that is taken away under it.

    Raises:
        Failure: It was not carried out, or not to its end; `live` says which environment lies at
            the path now: `old`, `new`, or `unclear`.
    """
    paths = Paths(*(Path(arguments[key]) for key in ("environment", "sibling", "previous")))
    intent = work.recall("intent")
    try:
        if arguments["unit"] is not None:
            stop({"unit": arguments["unit"], "timeout_seconds": _STOP_SECONDS}, work)
        if intent is None:
            intent = _intent(paths)
            work.note("intent", intent)
        done = _carry_out(paths, intent, work)
        ledger = Ledger(work.root, os.fspath(paths.live))
        ledger.becomes(paths.live, LIVE)
        ledger.becomes(paths.previous, PREVIOUS)
        return done
    except Failure as failure:
        raise _placed(failure, paths, intent) from failure
    except OSError as error:
        raise _placed(_not_done(paths, error), paths, intent) from error


def bring_back(paths: Paths, old: int, rejected: Path) -> None:
    """Have the old environment at its path again, wherever a switch was when it ended.

    Args:
        paths: The places of that switch.
        old: The inode of the old environment.
        rejected: Where the new one is kept from now on.

    Raises:
        Failure: The old environment is at none of the places, or could not be moved.
    """
    if _inode(paths.live) != old:
        kept = next((path for path in (*paths, rejected) if _inode(path) == old), None)
        if kept is None:
            raise Failure(
                "old-gone",
                f"The old environment of {paths.live} lies at none of its places.",
                f"Put an environment at {paths.live} by hand, then start the service.",
            )
        if _inode(paths.live) is None:
            _move(kept, paths.live, paths)
        else:
            _exchange(Paths(paths.live, kept, rejected))
    for path in (paths.sibling, paths.previous):
        if _is_folder(path) and _inode(rejected) is None:
            _move(path, rejected, paths)


def _carry_out(paths: Paths, intent: dict[str, Any], work: Work) -> dict[str, Any]:
    old, new = intent["old"], intent["new"]
    how = intent.get("how")
    here = [_inode(path) for path in paths]
    if here == [old, new, None]:
        how = _exchange(paths)
        work.note("intent", {**intent, "how": how})
        if how == "exchange":
            _move(paths.sibling, paths.previous, paths)
    elif here == [new, old, None]:
        _move(paths.sibling, paths.previous, paths)
    elif here == [None, new, old]:
        how = "two-step"
        _move(paths.sibling, paths.live, paths)
    elif here != [new, None, old]:
        raise Failure(
            "unclear",
            "The folders are not where this switch left them; nothing was moved.",
        )
    store.sync_folder(paths.live.parent)
    return {"how": how or "exchange", "live": {"inode": new}}


def _intent(paths: Paths) -> dict[str, Any]:
    if _inode(paths.previous) is not None:
        raise Failure(
            "previous-exists",
            f"{paths.previous} is there already; nothing was switched.",
            "Look at what it is, and move it away if it is no longer needed.",
        )
    for path in paths[:2]:
        if not _is_folder(path):
            raise Failure(
                "no-environment",
                f"{path} is not a folder; nothing was switched.",
                "Stage the environment first.",
            )
    return {"old": _inode(paths.live), "new": _inode(paths.sibling)}


def exchanges(one: Path, other: Path) -> bool:
    """Exchange two folders at once, and tell whether the file system can do so.

    Raises:
        OSError: They cannot be moved at all.
    """
    try:
        _renameat2(one, other, _RENAME_EXCHANGE)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        return False
    return True


def _exchange(paths: Paths) -> str:
    """Exchange the two folders at once, or one after the other where the file system cannot."""
    try:
        if exchanges(paths.sibling, paths.live):
            return "exchange"
    except OSError as error:
        raise _not_moved(paths.sibling, paths.live, error) from error
    try:
        _move(paths.live, paths.previous, paths)
        _move(paths.sibling, paths.live, paths)
    except (Failure, OSError):
        if _inode(paths.live) is None:
            _move(paths.previous, paths.live, paths)
        raise
    return "two-step"


def _move(source: Path, target: Path, paths: Paths) -> None:
    """Rename a folder to a name that is free."""
    try:
        try:
            _renameat2(source, target, _RENAME_NOREPLACE)
        except OSError as error:
            if error.errno not in _NOT_HERE or target.exists():
                raise
            source.rename(target)
    except OSError as error:
        raise _not_moved(source, target, error) from error
    store.sync_folder(paths.live.parent)


def _renameat2(source: Path, target: Path, flags: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = (os.fsencode(source), os.fsencode(target))
    if library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(flags)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _inode(path: Path) -> int | None:
    """Return what a folder is known by; its device's number may be another after a reboot."""
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _not_moved(source: Path, target: Path, error: OSError) -> Failure:
    return Failure(
        "not-switched",
        f"{source} could not be moved to {target}: {error.strerror}.",
        "Look at their file system.",
        errno=error.errno,
    )


def _not_done(paths: Paths, error: OSError) -> Failure:
    return Failure(
        "not-switched",
        f"The switch of {paths.live} was not carried out to its end: {error.strerror or error}.",
        f"Look at the file systems of the environment and of {scope.now().state}.",
        errno=error.errno,
    )


def _placed(failure: Failure, paths: Paths, intent: dict[str, Any] | None) -> Failure:
    """Return the failure with where everything lies now, looked at, not remembered."""
    places = [_what_lies_at(path, intent) for path in paths]
    if intent is None:
        live = "old" if _is_folder(paths.live) else "unclear"
        message = failure.message
    else:
        live = places[0] if places[0] in ("old", "new") else "unclear"
        said = [f"at {path} lies {_WORDS[place]}" for path, place in zip(paths, places)]
        message = f"{failure.message} Now {', '.join(said)}."
    hint = failure.hint
    if live == "unclear":
        hint = f"Put an environment at {paths.live} by hand, then start the service."
    where = {str(path): place for path, place in zip(paths, places)}
    return Failure(failure.kind, message, hint, **failure.fields, live=live, places=where)


def _what_lies_at(path: Path, intent: dict[str, Any] | None) -> str:
    """Return what a path holds: a key of the words for it."""
    try:
        inode = _inode(path)
    except OSError:
        return "unknown"
    if inode is None:
        return "nothing"
    if intent is None:
        return "something"
    return {str(intent["old"]): "old", str(intent["new"]): "new"}.get(str(inode), "something")
