"""When a redeploy does nothing but say why."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tasks.nightly import Hold, Known, judged, left_of, rejected, worst_case
from tasks.packages.diff import diff
from tasks.packages.versions import commit_delta
from tasks.planned import Plan
from tasks.release import ReleaseRecord, StartRecord
from tasks.request import Request
from tests.unit.records import NEW, OLD, record

NOW = datetime(2026, 12, 3, 1, 0, tzinfo=UTC)
HOLD = Hold(who="ann", why="a demo is on", since=0, until=1796256000)


def plan(before: str = OLD) -> Plan:
    return Plan(
        before=before,
        after=NEW,
        wheel=None,
        lock="",
        locked={},
        changes=diff({}, {}, []),
        delta=commit_delta(before, NEW),
        skews=[],
    )


def judge(known: Known, window: str | None = None, before: str = OLD, **wish: Any) -> str:
    request = Request(service="kimi", **wish)
    idle, barred = judged(plan(before), request, known, window, NOW)
    assert idle is None or barred is None
    return f"idle: {idle}" if idle else f"barred: {barred}" if barred else "go"


@pytest.mark.parametrize(
    ("known", "more", "said"),
    [
        (Known(), {}, "go"),
        (Known(), {"before": NEW}, f"idle: Nothing to do: {NEW} is installed already."),
        (Known(), {"before": NEW, "reinstall": True}, "go"),
        (
            Known(hold=HOLD),
            {},
            "idle: Nothing was done: kimi is on hold until 2026-12-03 00:00 UTC: a demo is on",
        ),
        (Known(hold=HOLD), {"target": NEW}, "barred: kimi is on hold"),
        (Known(records=[record()]), {}, f"idle: Nothing was done: {NEW} was rejected here at"),
        (Known(records=[record()]), {"target": NEW}, "go"),
        (Known(records=[record()]), {"reinstall": True}, "go"),
        (Known(hold=HOLD), {"reinstall": True}, "idle: Nothing was done: kimi is on hold"),
        (Known(), {"window": "02:00-05:00"}, "go"),
        (
            Known(),
            {"window": "02:00-05:00", "in_window": True},
            "idle: Nothing was done: it is 2026-12-03 01:00 UTC, and the window is 02:00",
        ),
        (Known(), {"window": "00:30-05:00", "in_window": True}, "go"),
    ],
)
def test_what_is_said(known: Known, more: dict[str, Any], said: str) -> None:
    assert judge(known, **more).startswith(said)


BACK = {"target": "previous", "before": NEW, "after": OLD, "result": "live"}


@pytest.mark.parametrize(
    ("records", "bad"),
    [
        ([], False),
        ([record()], True),
        ([record(after="1.0")], False),
        ([record(result="down")], False),
        ([record(cancelled=True)], False),
        ([record(result="live"), record()], False),
        ([record(), record(result="live")], True),
        ([record(**BACK), record(result="live")], True),
        ([record(**{**BACK, "result": "down"}), record(result="live")], False),
        ([record(after="1.0"), record()], True),
    ],
)
def test_a_version_was_rejected_where_it_failed_or_was_gone_back_from(
    records: list[ReleaseRecord], bad: bool
) -> None:
    assert (rejected(records, NEW) is not None) is bad


def start(seconds: float) -> StartRecord:
    return StartRecord(host="h", model="m", version=OLD, seconds={"loading weights": seconds})


def test_at_the_worst_every_start_takes_the_longest_and_the_way_back_too() -> None:
    seen = [record(seconds=1000, stopped_seconds=700, starts=[start(600)]), record(seconds=100)]
    assert worst_case(seen, attempts=3) == 300 + 4 * 600
    assert worst_case([record(seconds=100)], attempts=3) is None


def test_a_window_has_to_fit_the_worst_case() -> None:
    known = Known(records=[record(result="live", after="1", seconds=600, starts=[start(1800)])])
    wish: dict[str, Any] = {"in_window": True, "attempts": 1}
    assert judge(known, window="00:00-03:00", **wish) == "go"
    assert "it takes 70 min; the window 00:00-02:00 UTC ends in 60 min" in judge(
        known, window="00:00-02:00", **wish
    )


@pytest.mark.parametrize(
    ("clock", "window", "minutes"),
    [
        ("01:00", "00:00-02:00", 60),
        ("00:00", "00:00-02:00", 120),
        ("02:00", "00:00-02:00", None),
        ("23:30", "22:00-05:00", 330),
        ("04:30", "22:00-05:00", 30),
        ("05:30", "22:00-05:00", None),
        ("12:00", "00:00-00:00", 720),
    ],
)
def test_what_is_left_of_a_window(clock: str, window: str, minutes: int | None) -> None:
    hour, minute = map(int, clock.split(":"))
    left = left_of(NOW.replace(hour=hour, minute=minute), window)
    assert (left and left.total_seconds() / 60) == minutes
