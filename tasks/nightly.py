"""When a redeploy does nothing but say why: it is there, on hold, rejected here, or too late.

A nightly that is not wanted is no failure; whoever names a version is refused while on hold.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from pydantic import BaseModel

from tasks.packages.index import NIGHTLY
from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.release import ReleaseRecord
from tasks.request import PREVIOUS, Request

_PARTS = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")


class Hold(BaseModel):
    """What a person has put a service on hold for; times are seconds since 1970."""

    who: str
    why: str
    since: float
    until: float | None = None

    @property
    def in_words(self) -> str:
        """Return who, until when and why, for a sentence that begins with the service."""
        until = f" until {_clock(self.until)}" if self.until else ""
        return f"is on hold{until}: {self.why or 'no reason given'} ({self.who})"


class Known(BaseModel):
    """What the host knows that speaks against a redeploy; records with the newest first."""

    hold: Hold | None = None
    records: list[ReleaseRecord] = []


class Standing(NamedTuple):
    """Why nothing is done, as a verdict, and why it must not be done, as a refusal."""

    idle: str | None = None
    barred: str | None = None


def standing(run: Redeployment, plan: Plan) -> Standing:
    """Ask the host what speaks against this plan; what was undertaken already goes on."""
    if run.is_undertaken():
        return Standing()
    asked = {"environment": run.service.environment}
    hold = run.supervisor.call("status", asked)["hold"]
    records = run.supervisor.call("history", asked)["releases"]
    known = Known.model_validate({"hold": hold, "records": records})
    return judged(plan, run.request, known, run.service.window, datetime.now(UTC))


def judged(
    plan: Plan, request: Request, known: Known, window: str | None, now: datetime
) -> Standing:
    """Judge a plan by what the host knows.

    Args:
        plan: what would be done.
        request: what was asked for.
        known: what the host knows.
        window: when the nightly schedule may redeploy it, `22:00-05:00` in UTC; None: at any time.
        now: the time, with its zone.
    """
    if plan.before == plan.after and not request.reinstall:
        return Standing(idle=f"Nothing to do: {plan.after} is installed already.")
    held = f"{request.service} {known.hold.in_words}." if known.hold else None
    if request.target != NIGHTLY:
        return Standing(barred=held and f"{held} Lift it: redeploy unhold {request.service}")
    why = held or (None if request.reinstall else _unwanted(known, plan.after))
    if why is None and window and request.in_window:
        why = too_late(now, window, worst_case(known.records, request.attempts))
    return Standing(idle=why and f"Nothing was done: {why}")


def _unwanted(known: Known, version: str) -> str | None:
    bad = rejected(known.records, version)
    if bad is None:
        return None
    return (
        f"{version} was rejected here at {bad.time}: {bad.verdict} "
        "To try it again, name it as the target, or reinstall."
    )


def rejected(records: Sequence[ReleaseRecord], version: str) -> ReleaseRecord | None:
    """Return the record by which a version was last rejected here, unless it was taken since.

    It was rejected where its start failed, or where a person has gone back from it.
    """
    for record in records:
        if record.target == PREVIOUS:
            if record.before == version and record.result == "live":
                return record
        elif record.after == version:
            return record if record.result == "rolled back" and not record.cancelled else None
    return None


def worst_case(records: Sequence[ReleaseRecord], attempts: int) -> float | None:
    """Return the seconds that a redeploy takes at the worst, the way back included, or None.

    By what this host has seen: the longest time before the stop, and the longest start as often as
    is tried, and once more for the old release.
    """
    starts = [sum(start.seconds.values()) for one in records for start in one.starts]
    before = [one.seconds - (one.stopped_seconds or 0) for one in records]
    return max(before) + (attempts + 1) * max(starts) if starts else None


def too_late(now: datetime, window: str, needed: float | None) -> str | None:
    """Return why a redeploy does not fit into what is left of its window, or None."""
    left = left_of(now, window)
    if left is None:
        return f"it is {_clock(now.timestamp())}, and the window is {window} UTC."
    if needed is not None and needed > left.total_seconds():
        return (
            f"at the worst, with the way back, it takes {needed / 60:.0f} min; "
            f"the window {window} UTC ends in {left.total_seconds() / 60:.0f} min."
        )
    return None


def left_of(now: datetime, window: str) -> timedelta | None:
    """Return how much is left of a window, which may lie over midnight, or None outside of it."""
    found = _PARTS.fullmatch(window)
    if found is None:
        raise ValueError(f"{window!r} is not a window like 22:00-05:00.")
    begin, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
    here = now.astimezone(UTC)
    opened = here.replace(hour=begin.hour, minute=begin.minute, second=0, microsecond=0)
    if opened > here:
        opened -= timedelta(days=1)
    closes = opened.replace(hour=end.hour, minute=end.minute)
    if closes <= opened:
        closes += timedelta(days=1)
    return closes - here if here < closes else None


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
