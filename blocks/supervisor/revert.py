"""Takes a service back to the release it came from: `revert`.

It is one operation whoever asks for it, the flow, the guard or a person, so it is done once. It
goes by what lies where, not by what was done, and so finds its way from wherever it was killed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from blocks.supervisor import drop_ins, left_overs, transactions
from blocks.supervisor.facts import boot_id
from blocks.supervisor.failures import Failure
from blocks.supervisor.ledger import LIVE, REJECTED, Ledger
from blocks.supervisor.smoke import smoke
from blocks.supervisor.start import start, stop
from blocks.supervisor.switch import Paths, bring_back
from blocks.supervisor.watch import hold, watch
from blocks.supervisor.work import Work


def revert(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Stop the service, put the old environment back, start it, and see that it serves.

    Returns:
        What `watch` returns, and where the new environment is kept, if it was switched in.

    Raises:
        Failure: There is nothing to go back from, the old environment is not there, or the old
            release did not start, or does not serve. The service is down then.
    """
    undertaken = transactions.read(work.root, arguments["environment"])
    if undertaken is None or undertaken["holder"] != work.holder:
        raise Failure(
            "nothing-open",
            f"Nothing is under way on {arguments['environment']} that could be taken back.",
            "See what its history says.",
        )
    back = work.recall("back")
    if back is None:
        stop({**undertaken, "timeout_seconds": undertaken["stop_timeout_seconds"]}, work)
        back = {"rejected": _put_back(undertaken, work)}
        back["drop_ins_removed"] = _take_drop_ins_away(undertaken, back["rejected"], work)
        work.note("back", back)
    return {**_bring_up(undertaken, work), **back}


def _put_back(undertaken: dict[str, Any], work: Work) -> str | None:
    """Return where the new environment lies afterwards, if there is one."""
    live, sibling, previous, rejected = (
        Path(undertaken[name]) for name in ("environment", "sibling", "previous", "rejected")
    )
    beside = Path(undertaken["back_to"] or sibling)
    bring_back(Paths(live, beside, previous), undertaken["old"], rejected)
    ledger = Ledger(work.root, undertaken["environment"])
    ledger.becomes(live, LIVE)
    if not rejected.exists():
        return None
    ledger.becomes(rejected, REJECTED)
    return os.fspath(rejected)


def _take_drop_ins_away(undertaken: dict[str, Any], rejected: str | None, work: Work) -> list[str]:
    """Remove what was added to the unit for the release that is gone back from."""
    ledger = Ledger(work.root, undertaken["environment"])
    known = ledger.release_at(Path(rejected)) if rejected else None
    holders = {work.holder, *([known["release"]] if known else ())}
    return drop_ins.take_away(undertaken["unit"], holders)


def _bring_up(undertaken: dict[str, Any], work: Work) -> dict[str, Any]:
    """Start it and follow it; what an earlier boot has started does not count."""
    part = work.part(boot_id())
    launched = _start(undertaken, part)
    served = watch({**undertaken, **launched}, part)
    version, patience = transactions.back_at(undertaken), transactions.patience(undertaken)
    smoke(served["address"], undertaken["port"], version, patience)
    now = {"invocation": served["invocation"], "restarts_tolerated": served["restarts"]}
    hold({**undertaken, **launched, **now}, part)
    return served


def _start(undertaken: dict[str, Any], part: Work) -> dict[str, Any]:
    """Start it; what an earlier start of this very unit has left in its way is ended first."""
    try:
        return start(undertaken, part)
    except Failure as failure:
        in_its_way = failure.kind in ("port-taken", "gpus-busy")
        if not in_its_way or not left_overs.end({"unit": undertaken["unit"]}, part)["ended"]:
            raise
    return start(undertaken, part)
