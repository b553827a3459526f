"""Writes down what a redeploy is about to do, and has it guarded: `open`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from blocks.supervisor import guard_unit, store, transactions, units
from blocks.supervisor.ledger import LIVE, Ledger
from blocks.supervisor.seal import seal
from blocks.supervisor.work import Work


def open_transaction(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Write down what is about to be done, and have the environment guarded.

    Raises:
        Failure: systemd would not run the guard; nothing was begun.
    """
    environment = arguments["environment"]
    document = {
        **arguments,
        "holder": work.holder,
        "opened": time.time(),
        "old": Path(arguments["back_to"] or environment).lstat().st_ino,
    }
    path = transactions.path_of(work.root, environment)
    if store.read(path) is None:
        store.write(path, document)
    ledger, live = Ledger(work.root, environment), Path(environment)
    known = ledger.release_at(live)
    ledger.becomes(live, LIVE, None if known and "seal" in known else seal(live))
    files = units.files_as_they_are(arguments["unit"])
    store.write(work.root / "units" / f"{work.holder}.json", {"files": files})
    guard_unit.install(store.key_of(environment), environment)
    return {"guard": guard_unit.name_of(store.key_of(environment))}
