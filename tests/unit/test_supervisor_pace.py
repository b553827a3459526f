"""Limits and judgements of a start, over samples that are given."""

import time
from typing import Any

import pytest

from blocks.supervisor.arguments import DOING, checked
from blocks.supervisor.failures import Refusal
from blocks.supervisor.pace import Pace
from tasks.startup.progress import Progress
from tasks.startup.stall import Sample

STATE: dict[str, Any] = {"control_group": "/g", "main_pid": 7}
WATCH = {
    "unit": "x.service",
    "invocation": "0" * 32,
    "started": 100.0,
    "port": 8000,
    "deadline_seconds": 1000,
}
SHARDS = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:03<00:03, 1.5s/it]"


class Quiet:
    """Samples of processes that do nothing, one a minute, and the looks at what they do."""

    def __init__(self) -> None:
        self._times = iter(range(0, 10**6, 60))
        self.looks: list[str] = []

    def sample(self, control_group: str | None, lines: int) -> Sample:
        assert control_group == "/g"
        return Sample(next(self._times), lines, None, 0.0, 0, 0)

    def look(self, group: str | None, main_pid: int | None) -> list[str]:
        self.looks.append(f"{group} {main_pid}")
        return [f"look {len(self.looks)}"]

    def close(self) -> None:
        pass


@pytest.fixture
def quiet() -> Quiet:
    return Quiet()


def asked(**more: Any) -> dict[str, Any]:
    return checked("watch", {**WATCH, **more}, DOING)


def loading() -> Progress:
    how = Progress(100.0)
    how.add({"time": 110.0, "message": SHARDS, "pid": 7})
    return how


def looked(judging: Pace, how: Progress, times: int) -> list[bool]:
    found = []
    for _ in range(times):
        judging.due = 0.0
        found.append(judging.look(how, STATE))
    return found


def test_with_history_it_has_stalled_once_it_is_quiet_for_too_long(quiet: Quiet) -> None:
    judging = Pace(asked(longest={"loading weights": 400}), quiet, quiet.look)
    assert looked(judging, loading(), 9) == [False] * 7 + [True] * 2
    assert judging.slow == []


def test_without_history_it_is_slow_and_looked_at_once(quiet: Quiet) -> None:
    judging = Pace(asked(), quiet, quiet.look)
    assert not any(looked(judging, loading(), 9))
    assert quiet.looks == ["/g 7"]
    (slow,) = judging.slow
    assert (slow["stage"], slow["quiet_seconds"]) == ("loading weights", 480.0)
    assert slow["doing"] == judging.told()["doing"] == ["look 1"]
    assert judging.told()["judgement"]["kind"] == "slow"


def test_each_time_it_turns_slow_is_told(quiet: Quiet) -> None:
    judging, how = Pace(asked(), quiet, quiet.look), loading()
    looked(judging, how, 7)
    how.add({"time": 600.0, "message": "something new", "pid": 7})
    looked(judging, how, 1)
    assert judging.told()["doing"] == []
    looked(judging, how, 7)
    assert [one["doing"] for one in judging.slow] == [["look 1"], ["look 2"]]


def test_samples_are_seldom_unless_the_floor_is_low(quiet: Quiet) -> None:
    judging, how = Pace(asked(stall_floor_seconds=3), quiet, quiet.look), loading()
    judging.look(how, STATE)
    assert not judging.look(how, STATE)
    assert judging.told()["judgement"]["kind"] == "unknown"


def test_a_judgement_costs_the_same_after_hours(quiet: Quiet) -> None:
    judging, how = Pace(asked(), quiet, quiet.look), loading()
    began = time.process_time()
    looked(judging, how, 4000)
    assert time.process_time() - began < 2
    assert judging.judgement is not None
    assert judging.judgement.quiet_seconds == 3999 * 60


def test_limits_are_laid_over_the_defaults() -> None:
    judging, how = Pace(asked(limits={"loading weights": 60})), loading()
    assert judging.overdue(how, 100.0, now=165.0) is None
    assert "the limit of this stage is 60 s" in str(judging.overdue(how, 100.0, now=170.0))
    total = str(Pace(asked()).overdue(how, 100.0, now=1100.0))
    assert "the limit is 17 min" in total


@pytest.mark.parametrize(
    "given",
    [{"limits": {"serving": 1}}, {"limits": {"ready": 1}}, {"limits": {"launched": 0}}],
)
def test_only_stages_have_limits(given: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        asked(**given)
