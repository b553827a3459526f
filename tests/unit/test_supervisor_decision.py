"""A guard waits while anything works or is heard, and ends what fell silent by what it has done."""

import pytest

from blocks.supervisor.decision import Act, Decision, Seen, Way, decide

SILENT = Seen(
    silent_seconds=60,
    grace_seconds=60,
    working=False,
    recorded=False,
    stopped=True,
    serves=False,
    way_back="none",
)


@pytest.mark.parametrize(
    ("seen", "act"),
    [
        (SILENT, "revert"),
        (SILENT._replace(serves=True), "keep"),
        (SILENT._replace(stopped=False), "abandon"),
        (SILENT._replace(way_back="begun"), "revert"),
        (SILENT._replace(way_back="begun", serves=True), "revert"),
        (SILENT._replace(way_back="succeeded"), "record-reverted"),
        (SILENT._replace(way_back="failed"), "record-down"),
        (SILENT._replace(recorded=True), "end"),
        (SILENT._replace(recorded=True, silent_seconds=0), "end"),
    ],
)
def test_what_fell_silent_comes_to_an_end(seen: Seen, act: Act) -> None:
    assert decide(seen) == Decision(act)


@pytest.mark.parametrize("way_back", ["none", "succeeded", "failed"])
def test_before_the_grace_time_nothing_is_done(way_back: Way) -> None:
    seen = SILENT._replace(silent_seconds=45, way_back=way_back)
    assert decide(seen) == Decision("wait", 15)


def test_a_way_back_that_was_cut_off_is_gone_on_with_at_once() -> None:
    assert decide(SILENT._replace(silent_seconds=0, way_back="begun")) == Decision("revert")


def test_while_anything_works_the_guard_waits_however_long_nobody_asks() -> None:
    working = SILENT._replace(silent_seconds=1e6, working=True)
    assert decide(working) == Decision("wait", 60)
    assert decide(working._replace(recorded=True)).act == "wait"
