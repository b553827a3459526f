"""The stand-in program, installed by real uv and run on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from deployments.sandbox import catalog
from deployments.sandbox.packages.vllm.standin.failures import FAILURES, WRONG_ANSWERS
from deployments.sandbox.stories import KIMI
from tasks.startup import sanity
from tests.integration.polling import until
from tests.unit.sandbox_standin import LOAD_SECONDS, Running, install, serve

SKEW = (
    "RuntimeError: flashinfer-cubin version (0.6.3) does not match flashinfer version (0.6.4)."
    " Please install the same version of both packages."
    " Set FLASHINFER_DISABLE_VERSION_CHECK=1 to bypass this check."
)
INIT_FAILED = "RuntimeError: Engine core initialization failed. See root cause above."


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the stand-ins of the new release and a matching cubin."""
    return install(
        tmp_path_factory.mktemp("standin"),
        catalog.vllm(KIMI.nightly),
        catalog.flashinfer("0.6.4"),
        catalog.flashinfer_cubin("0.6.4"),
    )


def test_starts_serves_and_stops(environment: Path, tmp_path: Path) -> None:
    with serve(environment, tmp_path, "--tensor-parallel-size", "2") as running:
        running.wait_until_healthy()
        assert json.loads(running.get("/version")[1]) == {"version": KIMI.nightly.version}
        models = json.loads(running.get("/v1/models")[1])["data"]
        assert [model["id"] for model in models] == ["tiny"]
        assert b"vllm:num_requests_running" in running.get("/metrics")[1]
        tree = running.children()
        assert tree.count("VLLM::EngineCore") == 1
        assert {"VLLM::Worker_TP0", "VLLM::Worker_TP1"} < set(tree)
        running.process.terminate()
        assert running.process.wait(5) == 0
        assert running.children() == []


def test_replays_a_recorded_start(environment: Path, tmp_path: Path) -> None:
    with serve(environment, tmp_path) as running:
        running.wait_until_healthy()
        log = running.log.read_text()
        assert f"version {KIMI.nightly.version}" in log
        assert "Starting to load model /models/tiny" in log
        assert f"Starting vLLM server on http://127.0.0.1:{running.port}" in log
        assert f"(APIServer pid={running.process.pid})" in log
        assert "tiny'" in log
        assert "./tiny" not in log
        assert "0.32.0" not in log
        assert b"\rLoading safetensors checkpoint shards:   0% " in running.log.read_bytes()


def test_refuses_connections_while_loading(environment: Path, tmp_path: Path) -> None:
    with serve(environment, tmp_path, VLLM_STANDIN_LOAD_SECONDS="60") as running:
        while "non-default args" not in running.log.read_text():
            time.sleep(0.02)
        time.sleep(0.1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", running.port), timeout=2)
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", running.port))


def test_asks_for_the_key_on_v1_only(environment: Path, tmp_path: Path) -> None:
    with serve(environment, tmp_path, "--api-key", "secret") as running:
        running.wait_until_healthy()
        assert running.get("/v1/models")[0] == 401
        assert running.get("/v1/models", key="secret")[0] == 200
        assert running.get("/version")[0] == 200


def test_bench_measures_real_requests(environment: Path, tmp_path: Path) -> None:
    with serve(environment, tmp_path) as running:
        running.wait_until_healthy()
        result = bench(environment, tmp_path, running.port, "tiny")
    assert result["completed"] == 8
    assert result["failed"] == 0
    assert result["total_output_tokens"] == 8 * 16
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for figure in ("mean", "median", "std", "p50", "p99"):
            assert result[f"{figure}_{metric}_ms"] >= 0
    assert 30 <= result["median_ttft_ms"] <= 1000
    assert result["median_ttft_ms"] < result["median_e2el_ms"]


def test_bench_saves_a_result_when_all_requests_fail(environment: Path, tmp_path: Path) -> None:
    with serve(environment, tmp_path) as running:
        running.wait_until_healthy()
        result = bench(environment, tmp_path, running.port, "another")
    assert (result["completed"], result["failed"]) == (0, 8)


def bench(environment: Path, folder: Path, port: int, model: str) -> dict[str, float]:
    argv = [
        *(str(environment / "bin/vllm"), "bench", "serve", "--backend", "openai"),
        *("--base-url", f"http://127.0.0.1:{port}", "--model", "/models/tiny"),
        *("--served-model-name", model, "--tokenizer", "/models/tiny", "--dataset-name", "random"),
        *("--num-prompts", "8", "--random-input-len", "32", "--random-output-len", "16"),
        *("--seed", "0", "--temperature", "0", "--ignore-eos"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99"),
        *("--save-result", "--result-filename", str(folder / "bench.json")),
    ]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return dict(json.loads((folder / "bench.json").read_text()))


def test_import_alone_does_not_notice_a_skew_but_the_start_does(tmp_path: Path) -> None:
    environment = install(
        tmp_path,
        catalog.vllm(KIMI.nightly),
        catalog.flashinfer("0.6.4"),
        catalog.flashinfer_cubin("0.6.3"),
    )
    python = str(environment / "bin/python")
    subprocess.run([python, "-c", "import vllm"], check=True)
    with serve(environment, tmp_path) as running:
        assert running.process.wait(10) == 1
        lines = running.log.read_text().splitlines()
    engine = [line for line in lines if line.startswith("(EngineCore") and " ERROR " in line]
    assert engine[0].endswith("EngineCore failed to start.")
    assert engine[-1].endswith(SKEW)
    assert any("flashinfer/jit/env.py" in line for line in engine)
    assert "Process EngineCore:" in lines
    assert lines[-1] == INIT_FAILED + " Failed core proc(s): {}"
    assert sum("Traceback (most recent" in line for line in lines) == 3


@pytest.mark.parametrize(("kind", "stage"), FAILURES, ids=map("@".join, FAILURES))
def test_fails_as_it_is_told(environment: Path, tmp_path: Path, kind: str, stage: str) -> None:
    asked = tmp_path / "failure.json"
    after = 2 if stage == "serving" else 0.3  # it has to be seen healthy before
    asked.write_text(json.dumps({"kind": kind, "stage": stage, "after_seconds": after}))
    with serve(environment, tmp_path, VLLM_STANDIN_CONFIG=str(asked)) as running:
        if stage == "serving":
            running.wait_until_healthy()
        if kind == "hang":
            assert_hangs(running, stage)
            return
        status = running.process.wait(15)
        log = running.log.read_text()
        until(lambda: not running.children(), "the kernel has ended its children", 5)
    assert status == (0 if kind == "exit0" or stage == "serving" else 1), log
    assert_ends_as_recorded(kind, stage, log)


def assert_hangs(running: Running, stage: str) -> None:
    time.sleep(LOAD_SECONDS + 1)
    size = running.log.stat().st_size
    time.sleep(0.5)
    assert running.process.poll() is None
    assert running.log.stat().st_size == size
    if stage == "serving":
        assert running.get("/health")[0] == 200
        with pytest.raises(httpx.ReadTimeout):
            running.post("/v1/completions", {"prompt": "hello"}, seconds=1)
    running.process.terminate()
    assert running.process.wait(5) == 0


def assert_ends_as_recorded(kind: str, stage: str, log: str) -> None:
    expected = {
        ("crash", "import"): "ImportError: libfoo.so.1",
        ("crash", "engine"): "cudaGetDeviceCount",
        ("crash", "loading"): "SafetensorError",
        ("crash", "profile"): "Available memory on node 0",
        ("crash", "listening"): "ValueError: The supplied chat template",
        ("crash", "serving"): "RuntimeError: Executor failed.",
        ("sigkill", "serving"): "Engine core proc EngineCore died unexpectedly",
        ("port-in-use", "import"): "OSError: [Errno 98] Address already in use",
    }
    if kind == "exit0":
        assert "Traceback" not in log
    elif kind == "oom":
        assert "torch.OutOfMemoryError: CUDA out of memory." in log
        assert INIT_FAILED in log
    elif kind == "sigkill" and stage != "serving":
        assert "(EngineCore pid" not in log.partition("Traceback")[2]
        assert log.rstrip().endswith("Failed core proc(s): {'EngineCore': -9}")
    else:
        assert expected[kind, stage] in log


@pytest.mark.parametrize(("kind", "stage"), WRONG_ANSWERS, ids=map("@".join, WRONG_ANSWERS))
def test_answers_wrongly_and_goes_on_serving(
    environment: Path, tmp_path: Path, kind: str, stage: str
) -> None:
    with serve(environment, tmp_path, VLLM_STANDIN_FAIL=f"{kind}@{stage}") as running:
        running.wait_until_healthy()
        assert_answers_wrongly(running, kind)
        assert running.get("/health")[0] == 200
        assert running.get("/v1/models")[0] == 200
        is_right = json.loads(running.get("/version")[1]) == {"version": KIMI.nightly.version}
        assert is_right == (kind != "wrong-version")
        running.process.terminate()
        assert running.process.wait(5) == 0
        assert "Traceback" not in running.log.read_text()


def assert_answers_wrongly(running: Running, kind: str) -> None:
    asked = {"prompt": "The capital of France is", "max_tokens": 24}
    if kind == "lies":
        with pytest.raises(httpx.ReadTimeout):
            running.post("/v1/completions", asked, seconds=1)
        return
    answer = running.post("/v1/completions", asked)
    assert answer.status_code == (500 if kind == "dead" else 200)
    if kind == "dead":
        assert answer.json()["error"]["type"] == "InternalServerError"
        return
    [choice] = answer.json()["choices"]
    said = sanity.judge_text(choice["text"], choice["finish_reason"], 24)
    expected = {"garbage": "over and over", "broken": "broken characters"}
    assert expected[kind] in str(said) if kind in expected else said is None


def test_answers_wrongly_only_after_the_time_asked_for(environment: Path, tmp_path: Path) -> None:
    asked = tmp_path / "failure.json"
    asked.write_text(json.dumps({"kind": "dead", "stage": "serving", "after_seconds": 2}))
    with serve(environment, tmp_path, VLLM_STANDIN_CONFIG=str(asked)) as running:
        running.wait_until_healthy()
        assert running.post("/v1/completions", {"prompt": "hello"}).status_code == 200
        time.sleep(2)
        assert running.post("/v1/completions", {"prompt": "hello"}).status_code == 500


def test_fails_only_for_its_version_and_number_of_starts(environment: Path, tmp_path: Path) -> None:
    asked, counter = tmp_path / "failure.json", tmp_path / "counter.json"
    variables = {"VLLM_STANDIN_CONFIG": str(asked), "VLLM_STANDIN_COUNTER": str(counter)}
    asked.write_text(json.dumps({"kind": "crash", "stage": "import", "version": "0.1"}))
    with serve(environment, tmp_path, **variables) as running:
        running.wait_until_healthy()
    asked.write_text(json.dumps({"kind": "crash", "stage": "import", "starts": 1}))
    with serve(environment, tmp_path, **variables) as running:
        assert running.process.wait(10) == 1
    with serve(environment, tmp_path, **variables) as running:
        running.wait_until_healthy()


def test_notices_a_worker_that_is_killed(environment: Path, tmp_path: Path) -> None:
    with serve(environment, tmp_path, VLLM_STANDIN_LEAVE_SECONDS="2") as running:
        running.wait_until_healthy()
        worker = next(
            int(stat.parent.name)
            for stat in Path("/proc").glob("[0-9]*/stat")
            if (stat.parent / "cmdline").read_bytes().startswith(b"VLLM::Worker_TP0")
            and os.getpgid(int(stat.parent.name)) == running.process.pid
        )
        os.kill(worker, signal.SIGKILL)
        time.sleep(0.5)
        assert running.get("/health")[0] == 503
        assert running.process.wait(10) == 0
        assert "Worker proc VllmWorker-0 died unexpectedly" in running.log.read_text()
