"""The records of redeploys: `record`, `history`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from blocks.supervisor import pruning, store, values
from blocks.supervisor.ledger import LIVE, Ledger
from blocks.supervisor.store import Store
from blocks.supervisor.work import Doer, Work

LIVE_RESULTS = ("live", "live, benchmark failed")
"""Results of a redeploy after which the release at the path is the one to compare with."""

_record_id = values.matching(values.OPERATION, "the id of a record, [a-z0-9-]+")


def recorder(kept: Store) -> Doer:
    """Return what carries out `record` with this store."""

    def record(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
        document = arguments["record"]
        name = _record_id(document.get("id"), "record.id").replace("/", "-")
        path = kept.releases / f"{name}.json"
        store.write(path, document)
        environment = Path(str(document.get("environment") or ""))
        if document.get("result") in LIVE_RESULTS and environment.is_dir():
            from blocks.supervisor.seal import seal  # only here: most calls do without

            Ledger(work.root, str(environment)).becomes(environment, LIVE, seal(environment))
        with contextlib.suppress(OSError, ValueError):
            pruning.forget_old_operations(kept)
        return {"path": os.fspath(path)}

    return record


def history(kept: Store, environment: str | None) -> list[dict[str, Any]]:
    """Return the records, newest first."""
    found = filter(None, map(store.read, kept.releases.glob("*.json")))
    asked = [one for one in found if environment in (None, one.get("environment"))]
    return sorted(asked, key=lambda one: str(one.get("time", "")), reverse=True)
