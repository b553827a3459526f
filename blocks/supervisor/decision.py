"""What becomes of a redeploy that its flow has left alone. Pure; tested by case files.

A lost link never reverts a good start: while anything works on the host, its guard waits. Only
when nothing works and nobody has asked for anything for the grace time does it come to an end. A
way back that was begun is gone on with at once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Way = Literal["none", "begun", "succeeded", "failed"]
Act = Literal["wait", "end", "revert", "abandon", "keep", "record-reverted", "record-down"]


class Seen(NamedTuple):
    """What a guard sees.

    Attributes:
        silent_seconds: How long nobody has asked for anything, nothing has ended, and the host
            has been up.
        grace_seconds: How long that may be.
        working: Whether an operation of the redeploy runs.
        recorded: Whether its end is recorded.
        stopped: Whether it was ever told to stop the service.
        serves: Whether its last start served, and has lived since.
        way_back: How far the way back has come.
    """

    silent_seconds: float
    grace_seconds: float
    working: bool
    recorded: bool
    stopped: bool
    serves: bool
    way_back: Way


class Decision(NamedTuple):
    """What to do; how long to wait before looking again, in seconds."""

    act: Act
    wait_seconds: float = 0.0


def decide(seen: Seen) -> Decision:
    """Return what a guard does about what it sees."""
    if seen.working:
        return Decision("wait", seen.grace_seconds)
    if seen.recorded:
        return Decision("end")
    if seen.way_back == "begun":  # and cut off: it was decided then
        return Decision("revert")
    left = seen.grace_seconds - seen.silent_seconds
    if left > 0:
        return Decision("wait", left)
    if seen.way_back == "succeeded":
        return Decision("record-reverted")
    if seen.way_back == "failed":
        return Decision("record-down")
    if not seen.stopped:
        return Decision("abandon")
    return Decision("keep" if seen.serves else "revert")
