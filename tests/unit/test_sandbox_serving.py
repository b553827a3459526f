"""What the stand-in serves: its kinds, its address, its metrics, and how far it has loaded."""

from __future__ import annotations

import base64
import itertools
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from blocks.types import Kind
from deployments.sandbox import catalog
from deployments.sandbox.packages.vllm.v1.metrics.loggers import is_older
from deployments.sandbox.stories import KIMI, STORIES
from tasks.probes import to_try
from tasks.startup import sanity
from tasks.startup.metrics import Metrics, heartbeat, vanished
from tasks.startup.progress import Progress
from tests.unit.sandbox_standin import Running, install, serve

EMBEDDING = ("--runner", "pooling", "--convert", "embed")
RERANKER = ("--runner", "pooling", "--convert", "classify")
BODIES: dict[str, dict[str, object]] = {
    "/v1/completions": {"prompt": "hello"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/embeddings": {"input": ["red", "green"]},
    "/v1/rerank": {"query": "red", "documents": ["red", "green"]},
    "/v1/score": {"text_1": "red", "text_2": ["red", "green"]},
}
SCORING = {"/v1/rerank", "/v1/score"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the stand-ins of the new release."""
    folder = tmp_path_factory.mktemp("standin")
    return install(folder, catalog.vllm(KIMI.nightly), catalog.flashinfer("0.6.4"))


@contextmanager
def healthy(environment: Path, folder: Path, *options: str, **variables: str) -> Iterator[Running]:
    with serve(environment, folder, *options, **variables) as running:
        running.wait_until_healthy()
        yield running


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ((), {"/v1/completions", "/v1/chat/completions"}),
        (("--runner", "generate"), {"/v1/completions", "/v1/chat/completions"}),
        (EMBEDDING, {"/v1/embeddings", *SCORING}),
        (("--runner", "pooling"), {"/v1/embeddings", *SCORING}),
        (RERANKER, SCORING),
    ],
    ids=["auto", "generate", "embed", "pooling", "classify"],
)
def test_answers_what_its_kind_answers_sanely_and_nothing_else(
    environment: Path, tmp_path: Path, options: tuple[str, ...], served: set[str]
) -> None:
    with healthy(environment, tmp_path, *options) as running:
        for path, body in BODIES.items():
            answer = running.post(path, body)
            assert answer.status_code == (200 if path in served else 404), path
            if path not in served:
                assert answer.json() == {"detail": "Not Found"}
        for probe in to_try(Kind.AUTO):
            if probe.path in served:
                assert probe.judge(running.post(probe.path, probe.body).json()) is None
        log = running.log.read_text()
    tasks = "['generate']" if "/v1/completions" in served else "['token_"
    assert f"Supported tasks: {tasks}" in log
    assert ("Route: /v1/completions," in log) == ("/v1/completions" in served)


def test_many_prompts_are_answered_sanely(environment: Path, tmp_path: Path) -> None:
    with healthy(
        environment,
        tmp_path,
        VLLM_STANDIN_TOKEN_SECONDS="0",
        VLLM_STANDIN_PREFILL_SECONDS="0",
    ) as running:
        for i in range(50):
            answer = running.post(
                "/v1/completions", {"prompt": f"prompt {i}", "max_tokens": 64}
            ).json()
            [choice] = answer["choices"]
            assert sanity.judge_text(choice["text"], choice["finish_reason"], 64) is None


def test_embeddings_differ_and_are_near_where_texts_are(environment: Path, tmp_path: Path) -> None:
    texts = ["a red host", "a red host again", "green models"]
    with healthy(environment, tmp_path, *EMBEDDING) as running:
        answer = running.post("/v1/embeddings", {"input": texts}).json()
        packed = running.post(
            "/v1/embeddings", {"input": texts[0], "encoding_format": "base64"}
        ).json()
        ranked = running.post("/v1/rerank", {"query": "red host", "documents": texts[::-1]}).json()
        assert running.post("/v1/embeddings", {"input": 7}).status_code == 400
        assert running.post("/v1/embeddings", {"prompt": "x"}).status_code == 400
    one, near, far = (entry["embedding"] for entry in answer["data"])
    assert sanity.judge_embeddings([one, near, far], asked=3) is None
    assert _product(one, one) == pytest.approx(1)
    assert _product(one, near) > 0.5 > _product(one, far)
    data = base64.b64decode(packed["data"][0]["embedding"])
    assert struct.unpack(f"<{len(one)}f", data) == pytest.approx(one)
    assert answer["usage"] == {"prompt_tokens": 9, "total_tokens": 9, "completion_tokens": 0}
    assert sanity.judge_rerank(ranked["results"], asked=3, best=2) is None


def _product(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("kind", "said"), [("garbage", "no finite number"), ("broken", "though the texts differ")]
)
def test_vectors_and_scores_are_wrong_on_demand(
    environment: Path, tmp_path: Path, kind: str, said: str
) -> None:
    with healthy(environment, tmp_path, *EMBEDDING, VLLM_STANDIN_FAIL=f"{kind}@serving") as running:
        for probe in to_try(Kind.AUTO)[2:]:
            judged = probe.judge(running.post(probe.path, probe.body).json())
            assert said in str(judged)


@pytest.mark.parametrize(
    ("host", "reached", "refused"),
    [
        ("127.0.0.1", ["127.0.0.1"], ["127.0.0.2", "::1"]),
        ("::1", ["::1"], ["127.0.0.1"]),
        ("0.0.0.0", ["127.0.0.1", "127.0.0.2"], ["::1"]),
    ],
)
def test_listens_where_it_is_told(
    environment: Path, tmp_path: Path, host: str, reached: list[str], refused: list[str]
) -> None:
    with serve(environment, tmp_path, "--host", host) as running:
        while "Application startup complete" not in running.log.read_text():
            time.sleep(0.02)
        time.sleep(0.2)
        for address in reached:
            shown = f"[{address}]" if ":" in address else address
            assert httpx.get(f"http://{shown}:{running.port}/health").status_code == 200
        for address in refused:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address, running.port), timeout=1)
        shown = f"[{host}]" if ":" in host else host
        assert f"Starting vLLM server on http://{shown}:{running.port}" in running.log.read_text()


def test_another_one_of_the_same_user_on_the_port_is_no_hindrance(
    environment: Path, tmp_path: Path
) -> None:
    folders = tmp_path / "old", tmp_path / "new"
    for folder in folders:
        folder.mkdir()
    with (
        healthy(environment, folders[0], "--served-model-name", "old") as old,
        serve(environment, folders[1], "--port", str(old.port)) as new,
    ):
        while "Application startup complete" not in new.log.read_text():
            assert new.process.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        answers = [new.get("/v1/models")[1] for _ in range(40)]
        names = {name for answer in answers for name in re.findall(rb'"id": "(\w+)"', answer)}
        assert names == {b"old", b"tiny"}


def test_metrics_tell_what_is_under_way(environment: Path, tmp_path: Path) -> None:
    slow = {"VLLM_STANDIN_TOKEN_SECONDS": "0.1"}
    with healthy(environment, tmp_path, "--max-num-seqs", "2", **slow) as running:
        idle = running.metrics()
        assert gauges(idle) == (0, 0)
        asked = [threading.Thread(target=ask, args=(running,)) for _ in range(3)]
        for thread in asked:
            thread.start()
        time.sleep(0.5)
        busy = running.metrics()
        assert gauges(busy) == (2, 1)
        assert heartbeat(idle, busy) == "working"
        for thread in asked:
            thread.join()
        after = running.metrics()
    assert gauges(after) == (0, 0)
    assert heartbeat(after, after) == "idle"
    assert value(after, "vllm:generation_tokens_total") == 3 * 12
    assert value(after, "vllm:prompt_tokens_total") == 3 * 2
    assert value(after, "vllm:request_success_total", finished_reason="length") == 3
    assert value(after, "vllm:iteration_tokens_total_count") == 3 * 12
    assert value(after, "vllm:iteration_tokens_total_sum") == 3 * 14
    assert value(after, "vllm:iteration_tokens_total_bucket", le="1.0") == 3 * 11
    assert after.kinds["vllm:iteration_tokens_total"] == "histogram"
    assert {sample.label("engine") for sample in after.samples} == {"0"}


def test_metrics_of_pooling_move_too(environment: Path, tmp_path: Path) -> None:
    with healthy(environment, tmp_path, *EMBEDDING) as running:
        before = running.metrics()
        running.post("/v1/embeddings", {"input": "a red host"})
        after = running.metrics()
    assert heartbeat(before, after) == "working"
    assert value(after, "vllm:prompt_tokens_total") == 3


def test_a_hung_engine_says_its_last_words_for_ever(environment: Path, tmp_path: Path) -> None:
    with healthy(environment, tmp_path, VLLM_STANDIN_FAIL="lies@serving") as running:
        before = running.metrics()
        with suppress(httpx.ReadTimeout):
            running.post("/v1/completions", {"prompt": "hello"}, seconds=0.5)
        after = running.metrics()
    assert gauges(after) == (0, 0)
    assert heartbeat(before, after) == "idle"
    assert heartbeat(before, after, asked=True) == "hung"


def ask(running: Running) -> None:
    running.post("/v1/completions", {"prompt": "hello again", "max_tokens": 12}, seconds=20)


def gauges(metrics: Metrics) -> tuple[float, float]:
    running, waiting = (f"vllm:num_requests_{place}" for place in ("running", "waiting"))
    return value(metrics, running), value(metrics, waiting)


def value(metrics: Metrics, name: str, **labels: str) -> float:
    [found] = [
        sample.value
        for sample in metrics.samples
        if sample.name == name
        and all(sample.label(label) == wanted for label, wanted in labels.items())
    ]
    return found


def test_two_metrics_of_an_older_release_are_gone_in_a_newer_one(
    environment: Path, tmp_path: Path
) -> None:
    read = []
    for renamed_in in ("0.16.0rc2.dev345", KIMI.nightly.version):
        with healthy(environment, tmp_path, VLLM_STANDIN_METRICS_RENAMED_IN=renamed_in) as running:
            read.append(running.metrics().names())
    assert vanished(*read) == [
        "vllm:cpu_cache_usage_perc",
        "vllm:gpu_cache_usage_perc (now vllm:kv_cache_usage_perc)",
    ]


def test_versions_are_ordered_as_they_are_built() -> None:
    ordered = ["0.15.2rc1.dev88+g0", "0.16.0rc2.dev9", "0.16.0rc2.dev10", "0.16.0rc2", "0.16.0"]
    for one, other in itertools.pairwise(ordered):
        assert is_older(one, other)
        assert not is_older(other, one)
    assert not is_older("0.16.0", "0.16.0")
    assert not is_older("0.16.0", "")
    for story in STORIES.values():
        assert is_older(story.old.version, story.nightly.version)


def test_weights_load_at_a_rate_over_half_of_the_start(environment: Path, tmp_path: Path) -> None:
    load, seen = 4.0, []
    with serve(environment, tmp_path, VLLM_STANDIN_LOAD_SECONDS=str(load)) as running:
        began = time.time()
        progress = Progress(began)
        with running.log.open(newline="\n") as log:
            while "listening" not in progress.stage and time.time() < began + 20:
                for line in log:
                    progress.add({"time": time.time(), "message": line, "pid": running.process.pid})
                    if progress.stage == "loading weights" and progress.percent is not None:
                        seen.append((progress.percent, progress.rate, progress.seconds_left))
                time.sleep(0.01)
    percents = list(dict.fromkeys(percent for percent, _, _ in seen))
    assert percents == sorted(percents)
    assert len(percents) >= 16
    rates = [rate for _, rate, _ in seen if rate]
    assert rates[-1] == "8.00it/s"
    assert seen[len(seen) // 2][2] == pytest.approx(1, abs=1)
    assert progress.durations(time.time())["loading weights"] == pytest.approx(load / 2, abs=0.7)
