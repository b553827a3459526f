"""Removes folders beside an environment that this program made: `discard`, `prune`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from blocks.supervisor.failures import Failure
from blocks.supervisor.ledger import LIVE, PREVIOUS, STAGED, Ledger
from blocks.supervisor.work import Work


def discard(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Remove the environment that this redeploy has staged, if it was never switched in.

    Raises:
        Failure: What lies there is not this redeploy's staged environment.
    """
    sibling = Path(arguments["sibling"])
    if not sibling.exists() and not sibling.is_symlink():
        return {"removed": None}
    ledger = Ledger(work.root, arguments["environment"])
    known = ledger.release_at(sibling)
    if known is None or (known["state"], known["release"]) != (STAGED, work.holder):
        raise Failure(
            "not-ours",
            f"{sibling} is not what this redeploy has staged; it was left there.",
            "Look at what it is, and remove it if it is no longer needed.",
        )
    shutil.rmtree(sibling)
    return {"removed": os.fspath(sibling)}


def prune(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Remove what lies beside an environment of earlier redeploys.

    The live release and the one before it stay, and whatever this program has not made.
    """
    environment = Path(arguments["environment"])
    known = Ledger(work.root, arguments["environment"]).look()
    before = [one for one in known if one["state"] == PREVIOUS]
    kept = [max(before, key=lambda one: float(one["since"]))] if before else []
    removed = []
    for one in known:
        path = Path(one["path"])
        if one not in kept and path != environment and one["state"] != LIVE:
            shutil.rmtree(path, ignore_errors=True)
            removed.append(os.fspath(path))
    return {"removed": removed}
