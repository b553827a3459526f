"""Writes down what a redeploy is about to do, and has it guarded: `open`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from blocks.supervisor import guard_unit, store, transactions, units
from blocks.supervisor.failures import Failure
from blocks.supervisor.ledger import LIVE, Ledger
from blocks.supervisor.seal import seal
from blocks.supervisor.work import Work


def open_transaction(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Write down what is about to be done, and have the environment guarded.

    Raises:
        Failure: Another redeploy has come to no end, or systemd would not run the guard; nothing
            was begun.
    """
    environment = arguments["environment"]
    document = {
        **arguments,
        "holder": work.holder,
        "opened": time.time(),
        "old": Path(arguments["back_to"] or environment).lstat().st_ino,
    }
    key = store.key_of(environment)
    path = transactions.path_of(work.root, environment)
    before = store.read(path)
    if before is None:
        store.write(path, document)
    elif before["holder"] != work.holder:
        guard_unit.install(key, environment)  # it was killed before it had done so, perhaps
        raise Failure(
            "unfinished",
            f"The redeploy {before['holder']} of {environment} has come to no end yet.",
            "Its host ends it by itself; see when: grace_seconds of the service.",
        )
    ledger, live = Ledger(work.root, environment), Path(environment)
    known = ledger.release_at(live)
    ledger.becomes(live, LIVE, None if known and "seal" in known else seal(live))
    files = units.files_as_they_are(arguments["unit"])
    store.write(work.root / "units" / f"{work.holder}.json", {"files": files})
    guard_unit.install(key, environment)
    return {"guard": guard_unit.name_of(key)}
