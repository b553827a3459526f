"""Whether and how an environment can be exchanged with a sibling: `probe`."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, foreign, patience, processes
from blocks.supervisor.switch import exchanges

_SECONDS = 20


def probe(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return `how` a switch would be done ("exchange", "two-step"), or the `problem`.

    Two empty folders are made beside the environment for it and removed again.
    """
    path = Path(arguments["environment"])
    looked = patience.within(_SECONDS, str(path), lambda: _probe(path))
    if looked.problem is not None:
        return {"how": None, "problem": looked.problem}
    found: dict[str, Any] = looked.value
    return found


def _probe(path: Path) -> dict[str, Any]:
    problem = _kind(path)
    if problem is not None:
        return {"how": None, "problem": problem}
    if (private := processes.run((*commands.private_mounts(), "true"))).exit != 0:
        why = foreign.last_words(private.errors, 300)
        return {"how": None, "problem": f"this host lets this user have no mounts apart: {why}"}
    try:
        with contextlib.ExitStack() as removed:
            folders = [
                Path(
                    removed.enter_context(
                        tempfile.TemporaryDirectory(prefix=".redeploy-probe-", dir=path.parent)
                    )
                )
                for _ in range(2)
            ]
            return {"how": "exchange" if exchanges(*folders) else "two-step", "problem": None}
    except OSError as error:
        return {"how": None, "problem": f"no folder can be made beside {path}: {error.strerror}"}


def _kind(path: Path) -> str | None:
    if path.is_symlink():
        return f"{path} is a link; name the folder itself"
    if not path.is_dir():
        return f"{path} is not a folder"
    if path.is_mount():
        return f"{path} is a mount point; move the environment into a folder of that file system"
    if os.geteuid() not in (0, path.stat().st_uid):
        return f"{path} is another user's, and this user cannot make one like it"
    if (path / "conda-meta").is_dir():
        return f"{path} is a conda environment, whose packages uv must not replace"
    return None
