"""Environments that a person has put on hold: `keep`, `unkeep`. No redeploy begins there."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from blocks.supervisor import store
from blocks.supervisor.store import Store


def keep(kept: Store, asked: dict[str, Any]) -> dict[str, Any]:
    """Put an environment on hold, or anew; return what holds it now as `hold`."""
    hold = {**asked, "since": time.time()}
    _log(kept, "kept", asked)
    store.write(_path(kept.root, asked["environment"]), hold)
    return {"hold": hold}


def unkeep(kept: Store, asked: dict[str, Any]) -> dict[str, Any]:
    """Let redeploys of an environment begin again; return what held it as `hold`, or None."""
    held = now(kept.root, asked["environment"])
    if held is not None:
        _log(kept, "unkept", asked)
    _path(kept.root, asked["environment"]).unlink(missing_ok=True)
    return {"hold": held}


def now(root: Path, environment: str) -> dict[str, Any] | None:
    """Return what holds an environment now: `who`, `why`, `since` and `until`, or None."""
    hold = store.read(_path(root, environment))
    if hold is None or (hold["until"] is not None and hold["until"] <= time.time()):
        return None
    return hold


def _log(kept: Store, event: str, asked: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        kept.log(event, operation="hold", verb="hold", holder="hold", **asked)


def _path(root: Path, environment: str) -> Path:
    return root / "holds" / f"{store.key_of(environment)}.json"
