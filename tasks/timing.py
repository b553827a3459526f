"""Where the time of a redeploy went: the host's own log against what the flow saw."""

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from blocks.supervisor.transactions import STOPS
from tasks.redeployment import StepTime
from tasks.release import StepRecord

_PARTS = {
    "diagnose-journal": "diagnose",
    "diagnose-facts": "diagnose",
    "diagnose-configured": "diagnose",
    "diagnose-flashinfer": "diagnose",
    "fix-facts": "fix",
    "fix-resolve": "fix",
    "fix-verify": "fix",
    "request": "lock",
    "hold": "wait-healthy",
    "look": "wait-healthy",
    "old": "prove-old",
    "discard": "reinstall",
    "open": "guard",
    "prune": "record",
    "revert": "roll-back",
    "draining": "drain",
    "drained": "drain",
    "undrained": "undrain",
}
RESOLVE = "resolve"
"""What the names of all questions to the resolver begin with."""
_SERVED = ("watch", "revert")
_TURN = re.compile(r"-\d+$")


class Operation(BaseModel):
    """One operation of the host's log; times are seconds since 1970.

    One that still runs or was interrupted has no end that anybody saw, and takes no time here.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    operation: str
    verb: str
    state: str
    started: float
    finished: float | None = None
    seconds: float | None = None


def steps_of(
    redeploy: str, operations: Sequence[Operation], times: Sequence[StepTime]
) -> list[StepRecord]:
    """Put the host's time beside the flow's, a row a step in the order of the first run.

    What became of a step says the flow, where this run of it went through it: a service can answer
    garbage while all that the host did for the step succeeded.

    Args:
        redeploy: the redeploy's id; operations begin with it.
        operations: what the host did.
        times: what this run of the flow waited for; a resumed run has only its own part.
    """
    waited = {(time.phase, time.step): time for time in times}
    return [
        StepRecord(
            phase=phase,
            step=step,
            outcome=_outcome(waited.get((phase, step)), parts),
            seconds=_seen(waited.get((phase, step)), parts),
            host_seconds=_worked(parts),
        )
        for (phase, step), parts in _by_step(redeploy, operations).items()
    ]


def down_time(operations: Sequence[Operation]) -> float | None:
    """Return the seconds from the first stop to the last start that served, or None."""
    stops = [one.started for one in operations if one.verb in STOPS]
    served = _ends([one for one in operations if one.verb in _SERVED and one.state == "succeeded"])
    return max(served) - min(stops) if stops and served else None


def whole_time(operations: Sequence[Operation]) -> float:
    """Return the seconds from the first start of an operation to the last end."""
    ends = _ends(operations)
    return max(ends) - min(one.started for one in operations) if ends else 0.0


def _ends(operations: Sequence[Operation]) -> list[float]:
    return [one.finished for one in operations if one.finished is not None]


def _outcome(
    seen: StepTime | None, parts: Sequence[Operation]
) -> Literal["ok", "failed", "unfinished"]:
    if seen is not None:
        return "ok" if seen.ok else "failed"
    states = {one.state for one in parts}
    if "failed" in states:
        return "failed"
    return "ok" if states == {"succeeded"} else "unfinished"


def _worked(parts: Sequence[Operation]) -> float:
    return sum(one.seconds or 0.0 for one in parts)


def _by_step(
    redeploy: str, operations: Sequence[Operation]
) -> dict[tuple[str, str], list[Operation]]:
    rows: dict[tuple[str, str], list[Operation]] = {}
    for one in operations:
        phase, _, name = one.operation.removeprefix(f"{redeploy}/").rpartition("/")
        rows.setdefault((phase, _step(phase, name)), []).append(one)
    return rows


def _step(phase: str, name: str) -> str:
    if phase.startswith("attempt-"):
        if name == "stop":
            return "fix"
        if name == "start" and phase != "attempt-1":
            return "restart"
    if name.startswith(RESOLVE):
        return "plan"
    name = _TURN.sub("", name)
    return _PARTS.get(name, name)


def _seen(seen: StepTime | None, parts: Sequence[Operation]) -> float | None:
    return seen.seconds if seen is not None and seen.seconds >= _worked(parts) else None
