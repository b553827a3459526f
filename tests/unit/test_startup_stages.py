"""What each line of recorded starts says; a case is a log and the lines that were read by hand."""

import json
import re
from pathlib import Path

import pytest

from tasks.startup.stages import STAGES, Observation, observe, order

CASES = Path(__file__).parent.parent / "cases" / "startup"
SHORT_ISO = re.compile(r"^\d{4}-\S+ \S+ \S+\[\d+\]: ")


def observed_until_serving(log: Path) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for number, line in enumerate(log.read_text().split("\n"), start=1):
        seen = observe(SHORT_ISO.sub("", line))
        if seen is None:
            continue
        found[str(number)] = list(seen) if seen.percent is not None else list(seen[:2])
        if seen.stage == "serving":
            break
    return found


@pytest.mark.parametrize("log", sorted(CASES.glob("*.log")), ids=lambda log: log.stem)
def test_recorded_start(log: Path) -> None:
    expected = json.loads(log.with_suffix(".json").read_text())

    assert observed_until_serving(log) == expected


def test_a_real_start_never_goes_back() -> None:
    stages = [
        order(str(seen[0])) for seen in observed_until_serving(CASES / "01-success.log").values()
    ]

    assert stages == sorted(stages)


def test_the_last_of_several_updates_counts() -> None:
    line = (
        "(Worker_TP0 pid=7) \rLoading safetensors checkpoint shards:   0% Completed | 0/64 "
        "[00:00<?, ?it/s]\rLoading safetensors checkpoint shards:  62% Completed | 40/64 "
        "[01:20<1:00:48,  2.01s/it]\r"
    )

    assert observe(line) == Observation("loading weights", "40/64 shards", 62.0, "2.01s/it", 3648.0)


def test_graph_bar_with_blocks() -> None:
    line = (
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  "
        "50%|█████     | 10/20 [00:02<00:02,  4.50it/s]"
    )

    assert observe(line) == Observation("graphs", "10/20 graphs", 50.0, "4.50it/s", 2.0)


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        (
            "\x1b[0;36m(EngineCore_DP0 pid=40377)\x1b[0;0m INFO 11-20 10:11:24 [core.py:97] "
            "Initializing a V1 LLM engine (v0.16.0) with config: model='m'",
            "engine",
        ),
        (
            "INFO 02-18 04:51:36 [gpu_model_runner.py:1] Starting to load model m...",
            "loading weights",
        ),
        (
            "INFO 02-18 04:51:36 model_runner.py:1116] Loading weights took 3.2 seconds",
            "loading weights",
        ),
        (
            "(Worker pid=3) INFO 06-23 14:53:25 [decorators.py:311] Directly load AOT compilation "
            "from path /c/model",
            "compiling",
        ),
        (
            "(Worker pid=3) INFO 06-23 14:53:25 [monitor.py:53] torch.compile took 1.85 s in total",
            "compiling",
        ),
        (
            "INFO 06-23 14:53:25 [x.py:1] Graph capturing finished in 15 secs, took 0.33 GiB",
            "graphs",
        ),
        (
            "INFO 06-23 14:53:25 [x.py:1] Starting vLLM API server 0 on http://0.0.0.0:8000",
            "listening",
        ),
        ("(APIServer pid=2) INFO:     Application startup complete.", "listening"),
        ('(APIServer pid=2) INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 200 OK', "serving"),
    ],
)
def test_both_generations_of_prefix(line: str, stage: str) -> None:
    found = observe(line)

    assert found is not None
    assert found.stage == stage
    assert stage in STAGES


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[159B blob data]",
        "Traceback (most recent call last):",
        '    logger.info("Starting to load model %s...", name)',
        "(EngineCore pid=9) ERROR 12-01 12:00:00 [core.py:1] Starting to load model m...",
        '(APIServer pid=2) INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 503 Service Unavailable',
        "(APIServer pid=2) INFO 12-01 12:32:42 [loggers.py:335] GPU KV cache usage: 0.0%",
        "100%",
        "a" * 100_000,
        "9" * 100_000,
    ],
)
def test_says_nothing(line: str) -> None:
    assert observe(line) is None
