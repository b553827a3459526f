"""What earlier starts say of this one, and what is said of it meanwhile."""

from typing import Any

import pytest
from pydantic import ValidationError

from blocks.service import Service
from tasks.earlier_starts import remembered
from tasks.record import remarks_on
from tasks.shown import in_words
from tasks.startup.history import Estimate, Start, comparable
from tasks.wait_healthy import Serving, Slow

RECORD: dict[str, Any] = {
    "host": "gpu01",
    "model": "/models/kimi",
    "flags": ["--tensor-parallel-size=8"],
    "version": "0.16.0",
    "seconds": {"loading weights": 1200.0, "graphs": 60.0},
    "cache": "warm",
}
SERVING = Serving(invocation="a" * 32, listening_after_seconds=9.0)


def test_starts_of_all_records_come_newest_first_and_old_records_have_none() -> None:
    releases = [{"starts": [RECORD | {"version": "1"}, RECORD | {"version": "2"}]}, {}]
    releases.append({"starts": [RECORD | {"version": "0"}]})
    assert [one.version for one in remembered(releases)] == ["2", "1", "0"]


def test_what_is_left_is_told_by_earlier_starts() -> None:
    present = Start("gpu01", "/models/kimi", ("--tensor-parallel-size=8",), "0.16.1")
    history = comparable(remembered([{"starts": [RECORD]}]), present)
    estimate = history.eta("loading weights", 600.0)
    progress = {"says": "loading weights 50 %, 32/64 shards, 10 min"}
    assert in_words(progress, estimate) == (
        "loading weights 50 %, 32/64 shards, 10 min; ready in about 11 min "
        "(one earlier start of the same host, model and flags)"
    )


@pytest.mark.parametrize(
    ("progress", "estimate", "said"),
    [
        ({}, None, "waiting"),
        ({"stage": "loading"}, None, "loading"),
        ({"says": "loading, 12 min"}, None, "loading, 12 min"),
        (
            {"says": "graphs 40 %"},
            Estimate(30.0, True, "graphs alone"),
            "graphs 40 %; this stage in about 30 s (graphs alone)",
        ),
    ],
)
def test_nothing_is_claimed_that_is_not_known(
    progress: dict[str, Any], estimate: Estimate | None, said: str
) -> None:
    assert in_words(progress, estimate) == said


def test_what_was_odd_about_a_start_is_told() -> None:
    slow = [Slow(stage="graphs", quiet_seconds=n, why=f"It spun for {n} s.") for n in (9, 400, 30)]
    odd = SERVING.model_copy(update={"restarts": 1, "slow": slow})
    assert remarks_on(SERVING) == []
    assert remarks_on(odd) == [
        "systemd restarted it once on the way.",
        "In stage 'graphs': It spun for 400 s.",
    ]


def test_limits_are_of_stages_that_there_are() -> None:
    with pytest.raises(ValidationError, match="'loading wheels' is not a stage"):
        Service.model_validate(
            {
                "host": {"address": "h"},
                "unit": "v",
                "environment": "/e",
                **_limits("loading wheels"),
            }
        )


def _limits(stage: str) -> dict[str, Any]:
    return {"stage_limits": {stage: 60}}
