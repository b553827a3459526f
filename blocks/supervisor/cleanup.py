"""Removes left-over files by pattern, owner and age, never through a link: `cleanup`.

Folders are opened one below the other without following links, and files are removed by their
name in the opened folder: whoever may write there cannot lead us elsewhere meanwhile.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import pwd
import stat
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_AT_MOST = 200
_WILDCARDS = frozenset("*?[")


class Found(NamedTuple):
    """A file that matches a pattern, in its opened folder."""

    folder: int
    name: str
    path: str
    state: os.stat_result


def cleanup(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """List the matching files, write the list down, then remove them."""
    owner = _uid(arguments["owner"])
    noted = work.recall("listed")
    kept: list[dict[str, str]] = []
    if noted is None:
        youngest = time.time() - arguments["older_than_seconds"]
        listed = {}
        for found in _matching(arguments["patterns"]):
            why = reason_to_keep(found.state, owner, youngest)
            if why is None:
                listed[found.path] = found.state.st_size
            else:
                kept.append({"path": found.path, "why": why})
        noted = {"files": listed, "kept": kept}
        work.note("listed", noted)
    removed, not_removed = _remove(arguments["patterns"], noted["files"], owner)
    kept = [*noted["kept"], *not_removed]
    return {
        "removed": removed,
        "count": len(removed),
        "bytes": sum(one["bytes"] for one in removed),
        "kept": kept[:_KEPT_AT_MOST],
        "kept_count": len(kept),
    }


def reason_to_keep(state: os.stat_result, owner: int, youngest: float) -> str | None:
    """Return why a file is kept, or None if it is to be removed."""
    if stat.S_ISLNK(state.st_mode):
        return "a link"
    if not stat.S_ISREG(state.st_mode):
        return "not a regular file"
    if state.st_uid != owner:
        return f"owned by user {state.st_uid}"
    if state.st_mtime > youngest:
        return "too young"
    return None


def _remove(
    patterns: list[str], listed: dict[str, int], owner: int
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Remove the listed files; those already gone were removed by a run that was killed."""
    kept = {}
    for found in _matching(patterns):
        if found.path not in listed:
            continue
        why = reason_to_keep(found.state, owner, float("inf"))
        if why is None:
            try:
                os.unlink(found.name, dir_fd=found.folder)
            except OSError as error:
                why = error.strerror or type(error).__name__
        if why is not None:
            kept[found.path] = why
    removed = [
        {"path": path, "bytes": size} for path, size in sorted(listed.items()) if path not in kept
    ]
    return removed, [{"path": path, "why": why} for path, why in kept.items()]


def _matching(patterns: list[str]) -> Iterator[Found]:
    """Yield each file that matches once, while its folder is open."""
    seen: set[str] = set()
    for pattern in patterns:
        with _opened("/") as root:
            for found in _below(root, "", pattern.strip("/").split("/")):
                if found.path not in seen:
                    seen.add(found.path)
                    yield found


def _below(folder: int, at: str, parts: list[str]) -> Iterator[Found]:
    part, rest = parts[0], parts[1:]
    for name in _names(folder, part):
        path = f"{at}/{name}"
        with contextlib.suppress(FileNotFoundError):
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not rest or stat.S_ISLNK(state.st_mode):
                yield Found(folder, name, path, state)
            elif stat.S_ISDIR(state.st_mode):
                with contextlib.suppress(OSError), _opened(name, folder) as inner:
                    yield from _below(inner, path, rest)


def _names(folder: int, part: str) -> list[str]:
    if not _WILDCARDS & set(part):
        return [part]
    hidden = part.startswith(".")
    return sorted(
        name
        for name in os.listdir(folder)
        if fnmatch.fnmatchcase(name, part) and (hidden or not name.startswith("."))
    )


@contextlib.contextmanager
def _opened(name: str, inside: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, _FOLDER, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _uid(name: str) -> int:
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise Failure(
            "no-user", f"There is no user {name} on this host.", "Correct the owner."
        ) from None
