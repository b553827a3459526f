"""The course of a start, over its restarts."""

from typing import Any

from blocks.supervisor.trace import Trace

VERSION = "INFO 12-01 10:00:00 [x.py:1] vLLM API server version 0.16.0"
SHARDS = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:03<00:03, 1.5s/it]"
RESTART = "vllm.service: Scheduled restart job, restart counter is at 1."


def entry(time: float, message: str, pid: int = 7) -> dict[str, Any]:
    return {"time": time, "message": message, "pid": pid}


def told(*entries: dict[str, Any], lines: int = 5) -> Trace:
    trace = Trace(started=100.0, lines=lines)
    for one in entries:
        trace.add(one)
    return trace


def test_a_trace_keeps_the_furthest_stage_and_the_last_lines() -> None:
    trace = told(entry(100.5, VERSION), entry(102.0, SHARDS), entry(103.0, "more"), lines=2)
    progress = trace.progress(104.0)
    assert (progress["stage"], progress["percent"], progress["seconds_left"]) == (
        "loading weights",
        50.0,
        3.0,
    )
    assert (progress["elapsed"], progress["seconds_in_stage"]) == (4.0, 2.0)
    trace.serve(105.0)
    assert [(one["name"], one["at"], one["seconds"]) for one in trace.stages(105.0)] == [
        ("launched", 0.0, 0.5),
        ("imported", 0.5, 1.5),
        ("loading weights", 2.0, 3.0),
        ("ready", 5.0, 0.0),
    ]
    assert trace.last_lines() == [SHARDS, "more"]


def test_the_log_alone_does_not_make_it_ready() -> None:
    trace = told(entry(101.0, 'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'))
    assert trace.how.stage == "listening"
    assert trace.reached(102.0).where == "in stage 'listening'"


def test_after_a_restart_times_still_count_from_the_first_launch() -> None:
    trace = told(entry(101.0, SHARDS), entry(110.0, RESTART, pid=1), entry(112.0, VERSION))
    assert trace.how.restarts == 1
    assert [(one["name"], one["at"]) for one in trace.stages(113.0)] == [
        ("launched", 10.0),
        ("imported", 12.0),
    ]
    assert trace.progress(113.0)["elapsed"] == 13.0


def test_how_far_the_launch_had_come_that_died_is_kept() -> None:
    trace = told(entry(101.0, SHARDS), entry(110.0, RESTART, pid=1), entry(112.0, VERSION))
    died, goes_on = trace.reached(113.0, restarts=0), trace.reached(113.0, restarts=1)
    assert (died.where, goes_on.stage) == ("in stage 'loading weights' at 50%", "imported")
    assert [one["name"] for one in died.stages] == ["loading", "loading weights"]
