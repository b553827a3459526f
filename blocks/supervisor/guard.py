"""Ends what a redeploy has undertaken when its flow has fallen silent: `guard`.

A process of its own, under systemd, from before the stop until the end is recorded, and again
after a reboot. What it does are operations of the redeploy, so that they are done once.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

from blocks.supervisor import guard_unit, scope, store, transactions, units
from blocks.supervisor.attempts import attempts
from blocks.supervisor.decision import Act, Decision, Seen, Way, decide
from blocks.supervisor.failures import Failure, Told
from blocks.supervisor.guard_unit import GUARD
from blocks.supervisor.locks import Locks
from blocks.supervisor.operations import Operations
from blocks.supervisor.smoke import smoke
from blocks.supervisor.verdicts import verdict

_LONGEST_SLEEP_SECONDS = 15.0
_LOOKS_A_GRACE = 5
_AFTER_A_FAULT_SECONDS = 5.0
_STARTING = ("stop", "switch", "swap", "start", "watch", "install")

RECORDS: dict[Act, tuple[str, str]] = {
    "keep": (
        "live",
        "Serving {after}. The host has ended this redeploy by itself: "
        "nothing was heard of it for {grace:g} s.",
    ),
    "record-reverted": (
        "rolled back",
        "Rolled back to {before}; serving. The host has gone back by itself: "
        "nothing was heard of it for {grace:g} s.",
    ),
    "record-down": (
        "down",
        "DOWN since {since}. Nothing was heard of it for {grace:g} s, and the way back failed: "
        "{error}",
    ),
}
DRAINED = f" {transactions.STILL_DRAINED} (redeploy resume {{holder}})."
BACK = "Rolled back to {after}; serving. Nothing was heard of it for {grace:g} s."


class Silence:
    """How long nothing was heard, as counted here: no frozen host and no set clock adds to it."""

    def __init__(self) -> None:
        self._heard: object = None
        self._seconds = 0.0

    def seconds(self, heard: object) -> float:
        """Return for how long what was heard has been the same."""
        if heard != self._heard:
            self._heard, self._seconds = heard, 0.0
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Let some time pass, and count it."""
        time.sleep(seconds)
        self._seconds += seconds


class Guard:
    """The guard of one environment."""

    def __init__(self, kept: store.Store, operations: Operations, locks: Locks, key: str) -> None:
        self._kept, self._operations, self._locks, self._key = kept, operations, locks, key
        self._silence = Silence()

    def stand(self) -> None:
        """Watch until the redeploy has come to its end; then take the unit away."""
        while (undertaken := transactions.read_by_key(self._kept.root, self._key)) is not None:
            pause = self._once(undertaken)
            most = min(_LONGEST_SLEEP_SECONDS, undertaken["grace_seconds"] / _LOOKS_A_GRACE)
            self._silence.sleep(max(0.0, min(pause, most)))
        guard_unit.remove(self._key)

    def _once(self, undertaken: dict[str, Any]) -> float:
        """Look once, do what there is to do, and return when to look again, in seconds."""
        try:
            environment = {"environment": undertaken["environment"]}
            act, wait = self._decided(undertaken)
            done = self._operations.under(undertaken["holder"])
            if act == "revert":
                self._ensure(undertaken, "revert", environment)
            elif act == "abandon":
                staged = {"sibling": undertaken["sibling"]}
                self._ensure(undertaken, "discard", {**environment, **staged})
                self._end(undertaken, keep_lock=transactions.is_drained(done))
            elif act == "end":
                self._end(undertaken)
            elif act != "wait":
                self._record(undertaken, act, done)
        except (Told, OSError) as fault:
            self._log("failed", undertaken["holder"], error=str(fault)[:500])
            return _AFTER_A_FAULT_SECONDS
        return wait

    def _decided(self, undertaken: dict[str, Any]) -> Decision:
        """Decide; to ask whether it serves may take minutes, so it is looked at again after it."""
        seen = self._seen(undertaken, serves=False)
        if seen.way_back == "none" and decide(seen).act == "revert":
            seen = self._seen(undertaken, serves=_serves(self._operations, undertaken))
        return decide(seen)

    def _seen(self, undertaken: dict[str, Any], *, serves: bool) -> Seen:
        done = self._operations.under(undertaken["holder"])
        grace = undertaken["grace_seconds"]
        heard = self._locks.renewed(undertaken["environment"], undertaken["holder"])
        silent = self._silence.seconds((heard, [one["finished"] for one in done]))
        return Seen(
            silent_seconds=silent,
            grace_seconds=grace,
            working=any(one["state"] == "running" for one in done),
            recorded=transactions.has_ended(done),
            stopped=transactions.has_stopped(done),
            serves=serves,
            way_back=_way_back(undertaken["holder"], done),
        )

    def _record(self, undertaken: dict[str, Any], act: Act, done: list[dict[str, Any]]) -> None:
        result, words = RECORDS[act]
        if undertaken["back_to"] and act == "record-reverted":  # it went where it was to go
            result, words = "live", BACK
        way_back = transactions.revert_of(undertaken["holder"])
        error = self._error(way_back) if act == "record-down" else ""
        draft = undertaken["record"]
        now = datetime.now(timezone.utc)
        said = words.format(
            after=draft.get("after"),
            before=draft.get("before"),
            since=_since(done),
            error=error,
            grace=undertaken["grace_seconds"],
        )
        if transactions.is_drained(done):
            said += DRAINED.format(holder=undertaken["holder"])
        if act == "record-down":
            said += f" Try: {scope.by_hand('systemctl', 'restart', undertaken['unit'])}"
        record = {
            **draft,
            "time": now.isoformat(timespec="seconds"),
            "result": result,
            "verdict": said,
            "attempts": attempts(done, self._error, serves=act == "keep"),
        }
        self._ensure(undertaken, "record", {"record": record})

    def _error(self, operation: str) -> str:
        answer = self._operations.answer(operation)
        return str((answer["error"] or {}).get("message", ""))

    def _end(self, undertaken: dict[str, Any], *, keep_lock: bool = False) -> None:
        """Let go of what has come to its end, or has never touched the service.

        One that has taken the service out of its router has to be gone on with to put it back.
        """
        holder, environment = undertaken["holder"], undertaken["environment"]
        self._log("let-go", holder)
        if not keep_lock:
            self._locks.give_back(environment, holder)
        transactions.close(self._kept.root, environment, holder)

    def _log(self, event: str, holder: str, **more: Any) -> None:
        name = {"operation": f"{holder}/{GUARD}", "verb": GUARD, "holder": holder}
        self._kept.log(event, **name, **more)

    def _ensure(self, undertaken: dict[str, Any], verb: str, arguments: dict[str, Any]) -> None:
        asked = {**transactions.asking(undertaken, verb, arguments), "tell_seconds": None}
        self._operations.ensure(asked, _unheard)


def _unheard(progress: dict[str, Any]) -> None:
    """Nobody is told how a guard gets on."""
    del progress


def _serves(operations: Operations, undertaken: dict[str, Any]) -> bool:
    """Tell whether the last start was seen to serve and has lived since."""
    acts = [one for one in operations.under(undertaken["holder"]) if one["verb"] in _STARTING]
    if not acts or (acts[-1]["verb"], acts[-1]["state"]) != ("watch", "succeeded"):
        return False
    served = operations.answer(acts[-1]["operation"])["result"]
    state = units.state(undertaken["unit"])
    if verdict(state, served["invocation"], served["restarts"]) is not None:
        return False
    try:
        version, patience = undertaken["record"]["after"], transactions.patience(undertaken)
        smoke(served["address"], undertaken["port"], version, patience)
    except Failure:
        return False
    return True


def _way_back(holder: str, done: list[dict[str, Any]]) -> Way:
    name = transactions.revert_of(holder)
    states = {one["operation"]: one["state"] for one in done}
    ways: dict[str | None, Way] = {None: "none", "succeeded": "succeeded", "failed": "failed"}
    return ways.get(states.get(name), "begun")


def _since(done: list[dict[str, Any]]) -> str:
    stopped = min(
        (one["started"] for one in done if one["verb"] in transactions.STOPS), default=time.time()
    )
    return time.strftime("%H:%M:%S UTC", time.gmtime(stopped))
