"""What each line of a start says; a case is a log and the lines that were read by hand."""

import time

import pytest

from tasks.startup.lines import is_idle_talk, split
from tasks.startup.stages import READY, STAGES, Observation, observe, order
from tests.unit.startup_cases import Case, case, names


def observed(one: Case) -> dict[str, list[object]]:
    """Read until the first answered request; what follows is traffic."""
    found: dict[str, list[object]] = {}
    for number, entry in one.entries.items():
        seen = observe(entry["message"])
        if seen is None:
            continue
        found[str(number)] = list(seen[:5]) if seen.percent is not None else list(seen[:2])
        if seen.detail.startswith("answered"):
            break
    return found


@pytest.mark.parametrize("name", names())
def test_lines_of_a_start(name: str) -> None:
    one = case(name)

    assert observed(one) == one.expected["lines"]


@pytest.mark.parametrize("name", names())
def test_where_a_case_is_from_is_said(name: str) -> None:
    assert case(name).expected["origin"].startswith(("recorded: ", "composed"))


def test_a_real_start_never_goes_back() -> None:
    stages = [order(str(seen[0])) for seen in observed(case("01-success")).values()]

    assert stages == sorted(stages)


def test_no_line_of_any_case_says_ready() -> None:
    said = {
        seen.stage
        for name in names()
        for entry in case(name).entries.values()
        if (seen := observe(entry["message"]))
    }

    assert READY not in said
    assert said <= set(STAGES)


NEW = "(EngineCore pid=9) INFO 12-01 12:00:00 [a/b.py:1] "
OLD = "INFO 02-18 04:51:36 b.py:1] "
BAR = (
    "(Worker_TP0 pid=7) \rLoading safetensors checkpoint shards:   0% Completed | 0/64 "
    "[00:00<?, ?it/s]\rLoading safetensors checkpoint shards:  62% Completed | 40/64 "
    "[01:20<1:00:48,  2.01s/it]\r"
)


@pytest.mark.parametrize(
    "message",
    [
        BAR,
        BAR.encode(),
        list(BAR.encode()),
        BAR.replace("\r", "\n").split("\n"),
        "\x1b[1;36m" + BAR.replace("pid=7)", "pid=7)\x1b[0;0m"),
    ],
    ids=["text", "bytes", "numbers", "strings", "colours"],
)
def test_the_last_of_several_updates_counts(message: object) -> None:
    expected = Observation("loading weights", "40/64 shards", 62.0, "2.01s/it", 3648.0)

    assert observe(message) == expected


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_bar_after_other_words(end: str) -> None:
    bar = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:10<00:10,  5.00s/it]"

    seen = observe(f"(Worker pid=7) some words{end}{bar}")

    assert seen is not None
    assert seen.percent == 50.0


@pytest.mark.parametrize(
    ("message", "idle"),
    [
        (NEW + "No available shared memory broadcast block found in 60 seconds. This", True),
        (NEW + "Waiting for 1 local, 0 remote core engine proc(s) to start.", True),
        (
            NEW + "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
            "0.0 tokens/s, Running: 0 reqs",
            True,
        ),
        (
            NEW + "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
            "3.0 tokens/s, Running: 1 reqs",
            False,
        ),
        (NEW + "Starting to load model m...", False),
    ],
)
def test_idle_talk(message: str, idle: bool) -> None:
    assert [is_idle_talk(line) for line in split(message)] == [idle]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  "
            "50%|█████     | 10/20 [00:02<00:02,  4.50it/s]",
            ("graphs", "10/20 graphs", 50.0, "4.50it/s", 2.0),
        ),
        (
            "DeepGEMM warmup:   0%|          | 0/9 [00:00<?, ?it/s]"
            "DeepGEMM warmup:  33%|███▎      | 3/9 [00:03<00:06,  1.00s/it]",
            ("warm-up", "3/9 kernels", 33.0, "1.00s/it", 6.0),
        ),
        (
            "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]"
            "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:03,  1.00s/it]",
            ("loading weights", "1/4 shards", 25.0, "1.00s/it", 3.0),
        ),
        (
            "Multi-thread loading shards:  50% Completed | 2/4 [00:01<00:01,  1.50it/s]",
            ("loading weights", "2/4 shards", 50.0, "1.50it/s", 1.0),
        ),
        (
            "Loading safetensors using Runai Model Streamer:  10% Completed | 72/723 "
            "[00:01<00:09, 70.10it/s]",
            ("loading weights", "72/723", 10.0, "70.10it/s", 9.0),
        ),
    ],
)
def test_bars(line: str, expected: tuple[object, ...]) -> None:
    seen = observe(line)

    assert seen is not None
    assert seen[:5] == expected


@pytest.mark.parametrize(
    ("line", "stage", "cache"),
    [
        (
            "\x1b[0;36m(EngineCore_DP0 pid=40377)\x1b[0;0m INFO 11-20 10:11:24 [core.py:97] "
            "Initializing a V1 LLM engine (v0.16.0) with config: model='m'",
            "starting engine",
            None,
        ),
        (OLD + "Initializing an LLM engine (v0.6.3) with config: m", "starting engine", None),
        (OLD + "Starting to load model m...", "loading weights", None),
        (OLD + "Loading model weights took 14.98 GB", "weights loaded", None),
        (NEW + "Loading weights took 3.2 seconds", "weights loaded", None),
        (NEW + "Directly load AOT compilation from path /c/model", "compiling", "warm"),
        (
            OLD + "Directly load the compiled graph(s) for shape None from the cache, took 2.5 s",
            "compiling",
            "warm",
        ),
        (NEW + "Compiling a graph for dynamic shape takes 29.11 s", "compiling", "cold"),
        (NEW + "saved AOT compiled function to /c/model", "compiling", "cold"),
        (
            NEW.replace("INFO", "WARNING") + "Compiling model again due to a load failure from /c",
            "compiling",
            "cold",
        ),
        (NEW + "torch.compile took 1.85 s in total", "compiling", None),
        (OLD + "# GPU blocks: 7812, # CPU blocks: 2048", "KV cache", None),
        (
            "(Worker pid=3) 2026-06-21 07:20:40,219 - INFO - autotuner.py:622 - flashinfer.jit: "
            "[Autotuner]: Autotuning process starts ...",
            "warm-up",
            None,
        ),
        (NEW + "Graph capturing finished in 15 secs, took 0.33 GiB", "graphs", None),
        (NEW + "Starting vLLM API server 0 on http://0.0.0.0:8000", "starting server", None),
        ("(APIServer pid=2) INFO:     Application startup complete.", "listening", None),
        (
            '(APIServer pid=2) INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 200 OK',
            "listening",
            None,
        ),
        (
            "(RayWorkerWrapper pid=5, ip=10.0.0.2) " + OLD + "Starting to load model m...",
            "loading weights",
            None,
        ),
    ],
)
def test_both_generations_of_lines(line: str, stage: str, cache: str | None) -> None:
    found = observe(line)

    assert found is not None
    assert (found.stage, found.cache) == (stage, cache)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[159B blob data]",
        "Traceback (most recent call last):",
        '    logger.info("Starting to load model %s...", name)',
        "(EngineCore pid=9) ERROR 12-01 12:00:00 [core.py:1] Starting to load model m...",
        "(EngineCore pid=9) Starting to load model m...",
        "ERROR:    Application startup complete.",
        "RuntimeError: INFO:     Application startup complete.",
        '(APIServer pid=2) INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 503 Service Unavailable',
        "(APIServer pid=2) INFO 12-01 12:32:42 [loggers.py:335] GPU KV cache usage: 0.0%",
        '{"level": "INFO", "msg": "Starting to load model m..."}',
        "Processed prompts: 100%|█| 1/1 [00:01<00:00,  1.26s/it]",
        "100%",
        "a" * 100_000,
        "9" * 100_000,
        "(" * 100_000,
        "Loading shards " * 10_000,
        NEW + "a " * 50_000,
        None,
        7,
        [],
        [None, 300],
    ],
)
def test_says_nothing(line: object) -> None:
    assert observe(line) is None


def test_a_detail_is_no_longer_than_a_person_reads() -> None:
    seen = observe(NEW + "Warming up " + "x" * 10_000)

    assert seen is not None
    assert len(seen.detail) == 200


@pytest.mark.parametrize("unit", ["(", "1%|", " ", "pid=1", "INFO ", "Loading ", "█", "a\r", "9/"])
def test_hostile_lines_take_no_time(unit: str) -> None:
    begun = time.process_time()

    observe(unit * (60_000 // len(unit)))
    observe(NEW + unit * (60_000 // len(unit)))

    assert time.process_time() - begun < 2.0
