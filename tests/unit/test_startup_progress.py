"""What the lines of a start say together: slowest worker, restarts, unknown shapes."""

from typing import Any

import pytest

from tasks.startup.progress import Progress, spell
from tests.unit.startup_cases import case, names


def follow(name: str) -> tuple[Progress, dict[str, list[object]], dict[str, str], float]:
    entries = case(name).entries
    first = next(iter(entries.values()))["time"]
    progress = Progress(first)
    course: dict[str, list[object]] = {}
    details: dict[str, str] = {}
    before: list[object] = [progress.stage, progress.percent, progress.restarts]
    for number, entry in entries.items():
        progress.add(entry)
        details[str(number)] = progress.detail
        now: list[object] = [progress.stage, progress.percent, progress.restarts]
        if now != before:
            course[str(number)] = before = now
        last = entry["time"]
    return progress, course, details, last


@pytest.mark.parametrize("name", names())
def test_course_of_a_start(name: str) -> None:
    expected = case(name).expected

    progress, course, details, last = follow(name)

    assert course == expected["course"]
    assert progress.cache == expected.get("cache")
    assert {line: details[line] for line in expected.get("details", {})} == expected.get(
        "details", {}
    )
    if "durations" in expected:
        assert progress.durations(last) == expected["durations"]
    if "news" in expected:
        assert progress.news == expected["news"]


def said(*lines: str, pid: int | None = None, started: float = 0.0) -> Progress:
    progress = Progress(started)
    for number, line in enumerate(lines, start=1):
        progress.add({"time": started + number, "pid": pid, "message": line})
    return progress


def test_silence_is_launched() -> None:
    progress = Progress(100.0)

    assert progress.stage == "launched"
    assert progress.says(145.0) == "launched, 45 s"


def test_lines_of_no_known_shape_are_loading_and_no_more() -> None:
    progress = said(*["something new"] * 30)

    assert progress.stage == "loading"
    assert progress.says(720.0) == "loading, 12 min"
    assert "loading" not in progress.durations(720.0)


def test_a_cut_head_is_not_called_launched() -> None:
    progress, _, _, last = follow("unknown-shape")

    assert [stage["name"] for stage in progress.stages(last)] == [
        "launched",
        "loading",
        "loading weights",
    ]
    cut = said(
        "(Worker pid=1) INFO 12-01 12:00:00 [a.py:1] Available KV cache memory: 3 GiB", started=50.0
    )
    assert cut.stages(60.0) == [
        {"name": "loading", "at": 0.0, "seconds": 1.0},
        {"name": "KV cache", "at": 1.0, "seconds": 9.0},
    ]
    assert cut.durations(60.0) == {"KV cache": 9.0}


def test_only_being_asked_makes_it_ready() -> None:
    progress, _, _, last = follow("01-success")
    assert progress.stage == "listening"

    progress.ready(last + 2)

    assert progress.stage == "ready"
    assert progress.seconds_in_stage(last + 5) == 3
    assert "ready" not in progress.durations(last + 5)


def test_it_is_said_to_a_person() -> None:
    progress = said(
        "(Worker_TP0 pid=7) Loading safetensors checkpoint shards:  62% Completed | 40/64 "
        "[01:20<00:48,  2.01s/it]"
    )

    assert progress.says(725.0) == "loading weights 62 %, 40/64 shards, 2.01s/it, 12 min"
    assert progress.seconds_left == 48.0
    assert follow("cold-compile")[0].stage == "listening"


def test_a_compile_is_called_cold_or_warm() -> None:
    cold = "(Worker pid=7) INFO 12-01 12:00:00 [a.py:1] Compiling a graph for x takes 9 s"
    warm = "(Worker pid=7) INFO 12-01 12:00:00 [a.py:1] Directly load AOT compilation from path /c"

    assert said(warm).says(9.0) == "compiling (warm), 9 s"
    assert said(cold, warm).says(9.0) == "compiling (cold), 9 s"
    assert said(warm, cold).says(9.0) == "compiling (cold), 9 s"


INFO = "INFO 12-01 12:00:00 [a.py:1] "


def test_a_worker_that_still_loads_holds_the_others_back() -> None:
    lines = [
        f"(Worker_TP0 pid=1) {INFO}Starting to load model m...",
        f"(Worker_TP1 pid=2) {INFO}Starting to load model m...",
        f"(Worker_TP0 pid=1) {INFO}Loading weights took 3 seconds",
        f"(Worker_TP0 pid=1) {INFO}Using cache directory: /c for vLLM's torch.compile",
    ]

    assert said(*lines).stage == "loading weights"
    done = f"(Worker_TP1 pid=2) {INFO}Model loading took 3 GiB and 4 seconds"
    assert said(*lines, done).stage == "compiling"
    assert said(*lines, f"(EngineCore pid=3) {INFO}GPU KV cache size: 9 tokens").stage == "KV cache"


def test_late_lines_take_nothing_back() -> None:
    bar = "(Worker pid=1) Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:10<00:00]"
    cache = f"(EngineCore pid=3) {INFO}GPU KV cache size: 9 tokens"
    complete = "(APIServer pid=9) INFO:     Application startup complete."

    assert said(cache, bar).stage == "KV cache"
    assert said(
        complete, "(APIServer pid=10) INFO:     Waiting for application startup."
    ).stage == ("listening")
    assert said(complete, f"(APIServer pid=9) {INFO}Resolved architecture: A").stage == "listening"


def test_kernels_tuned_while_memory_is_measured_are_no_warm_up() -> None:
    tuning = f"(Worker pid=1) {INFO}[Autotuner]: Autotuning process starts ..."
    cache = f"(EngineCore pid=3) {INFO}GPU KV cache size: 9 tokens"

    assert said(f"(APIServer pid=9) {INFO}non-default args: {{}}", tuning).stage == "imported"
    assert said(cache, tuning).stage == "warm-up"


def test_after_a_traceback_a_process_is_believed_again_when_it_logs_again() -> None:
    bar = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:10<00:10,  5.00s/it]"
    trace = "(Worker pid=1) Traceback (most recent call last):"

    assert said(trace, f"(Worker pid=1) {bar}").percent is None
    assert said(trace, f"(Worker pid=2) {bar}").percent == 50.0
    assert said(trace, f"(Worker pid=1) {INFO}retrying", f"(Worker pid=1) {bar}").percent == 50.0


def test_only_systemd_tells_of_a_restart() -> None:
    message = "vllm.service: Scheduled restart job, restart counter is at 2."
    banner = f"(APIServer pid=9) {INFO}vLLM API server version 0.10.2"

    def after(pid: int | None) -> Progress:
        progress = said(banner)
        progress.add({"time": 5.0, "pid": pid, "message": message})
        return progress

    assert (after(1).stage, after(1).restarts, after(1).started) == ("launched", 1, 5.0)
    assert (after(77).stage, after(77).restarts) == ("imported", 0)


def test_a_banner_twice_of_one_process_is_one_start() -> None:
    banner = f"(APIServer pid=9) {INFO}vLLM API server version 0.10.2"
    engine = f"(EngineCore pid=3) {INFO}Initializing a V1 LLM engine (v0.10.2) with config: m"

    assert said(banner, banner).restarts == 0
    assert said(banner, engine, banner).restarts == 1  # in a container ids come again
    assert said(banner, banner.replace("pid=9", "pid=10")).restarts == 1


@pytest.mark.parametrize(
    "entry",
    [
        {"time": 1.0, "message": ""},
        {"time": 1.0, "pid": 1, "message": None},
        {"time": 1.0, "pid": 5, "message": [1, 2, 255]},
        {"time": 1.0, "pid": None, "message": "(x pid=99999999999999999999) y"},
    ],
)
def test_odd_entries_do_no_harm(entry: dict[str, Any]) -> None:
    progress = Progress(0.0)

    progress.add(entry)

    assert progress.stage == "launched"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h")],
)
def test_spell(seconds: float, text: str) -> None:
    assert spell(seconds) == text
