"""What a unit that does not get on does: in sentences, and by `py-spy dump` if that is there.

The environment's own py-spy is run as its owner, never as root: whoever owns the environment could
else have us run what they like.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from blocks.supervisor import cgroups, commands, doing, environment, foreign, processes, uv
from blocks.supervisor.failures import Failure

_SECONDS = 10.0
_ALL_SECONDS = 30.0
_MOST_PROCESSES = 8
_LONGEST_DUMP = 8000
_LONGEST = 24_000


class _Found(NamedTuple):
    """How py-spy is run, and in which variables."""

    prefix: Sequence[str]
    variables: Mapping[str, str] | None


def held_up(state: dict[str, Any], path: str | None) -> dict[str, Any]:
    """Return what the processes of a unit are `doing`, and where their code is by `py_spy`.

    Args:
        state: The unit's.
        path: The environment, which may have a py-spy.
    """
    group, main_pid = state["control_group"], state["main_pid"]
    pids = cgroups.members(group) if group else set()
    return {"doing": doing.doing(group, main_pid), "py_spy": dump(pids, main_pid, path)}


def dump(pids: set[int], main_pid: int | None, path: str | None) -> str | None:
    """Return the stacks of some processes, the main one first. None: there is no py-spy.

    Args:
        pids: The unit's processes.
        main_pid: Its main process.
        path: The environment, which may have a py-spy.
    """
    found = _find(path)
    if found is None or not pids:
        return None
    deadline = time.monotonic() + _ALL_SECONDS
    told: list[str] = []
    for pid in doing.in_order(pids, main_pid)[:_MOST_PROCESSES]:
        left = deadline - time.monotonic()
        if left <= 0:
            told.append("The others were not looked at: it took too long.")
            break
        told.append(_dump(found, pid, min(_SECONDS, left)))
    return "\n\n".join(told)[:_LONGEST]


def _dump(found: _Found, pid: int, seconds: float) -> str:
    argv = commands.py_spy_dump(found.prefix, pid)
    ended = processes.run(argv, timeout=seconds, environment=found.variables)
    if ended.exit == 0:
        return foreign.safe(ended.output).strip()[:_LONGEST_DUMP]
    return f"py-spy did not show {pid}: {foreign.last_words(ended.errors, 300)}"


def _find(path: str | None) -> _Found | None:
    on_path = shutil.which("py-spy")
    if on_path is not None:
        return _Found((on_path,), None)
    if path is None:
        return None
    own = Path(path, "bin", "py-spy")
    with contextlib.suppress(OSError, Failure):
        if own.is_file():
            owner = environment.owner(Path(path))
            return _Found(uv.as_owner(owner, (str(own),)), uv.owner_environment(owner))
    return None
