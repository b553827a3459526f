"""Drop-ins of ours for a service's unit: `drop-in`.

A file of its own for each redeploy and remedy, after every other by its name. Its first line says
whose it is, and only such a file is ever removed: by the way back from the release it was made for.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, foreign, processes, scope, store
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

_PREFIX = "zz-vllm-redeploy-"
_HEAD = "# Added by vllm-redeploy in redeploy {holder}; the way back removes it."


def add(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Add lines to a unit's `[Service]` section, and have systemd read them.

    Raises:
        Failure: The file could not be written, or systemd did not read it.
    """
    unit, holder = arguments["unit"], work.holder
    path = _folder(unit) / f"{_PREFIX}{arguments['name']}-{holder.replace('/', '-')}.conf"
    lines = (_HEAD.format(holder=holder), "[Service]", *arguments["lines"])
    text = "".join(f"{line}\n" for line in lines)
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
            path.parent.chmod(0o755)
        store.write_text(path, text)
        path.chmod(0o644)
    except OSError as error:
        raise Failure(
            "not-written",
            f"{path} could not be written: {error.strerror or error}.",
            "The unit is as it was. See whether the folder can be written.",
        ) from error
    _reload()
    return {"path": os.fspath(path), "lines": arguments["lines"]}


def take_away(unit: str, holders: set[str]) -> list[str]:
    """Remove the drop-ins that some redeploys have added to a unit; return their paths.

    One that cannot be removed hinders no way back. The next start reads the units again.
    """
    heads = {_HEAD.format(holder=holder) for holder in holders}
    removed = []
    for path in sorted(_folder(unit).glob(f"{_PREFIX}*.conf")):
        with contextlib.suppress(OSError):
            if _first_line(path) in heads:
                path.unlink()
                removed.append(os.fspath(path))
    return removed


def _folder(unit: str) -> Path:
    return scope.now().units / f"{unit}.d"


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(1000).rstrip("\n")


def _reload() -> None:
    ended = processes.run(commands.daemon_reload(), timeout=120)
    if ended.exit != 0:
        raise Failure(
            "not-reloaded",
            f"systemd did not read its units again: {foreign.last_words(ended.errors, 500)}",
            f"See {scope.by_hand('systemctl', 'daemon-reload')}.",
        )
