"""GPUs by real pynvml; where there is a compiler, against a library that stands in for NVIDIA's."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor.start import above_baseline, not_seen
from tests.integration.nvml_stub import StubGpu, StubProcess, build_stub, configuration

ROOT = Path(__file__).parents[2]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def facts(folder: Path, told: str) -> dict[str, Any]:
    build_stub(folder)
    (folder / "conf").write_text(told)
    code = "import json; from blocks.supervisor import gpus; print(json.dumps(gpus.facts('/')))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(folder),
            "NVML_STUB_CONF": str(folder / "conf"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_gcc
def test_driver_memory_and_processes(tmp_path: Path) -> None:
    processes = (StubProcess(os.getpid(), 60), StubProcess(1 << 22, 30))
    gpu = StubGpu("GPU-1", "NVIDIA H200", 150_000_000_000, 90, processes)
    found = facts(tmp_path, configuration([gpu, gpu]))
    assert (found["driver"], found["problem"], len(found["gpus"])) == ("580.95.05", None, 2)
    first = found["gpus"][0]
    assert (first["memory_total"], first["memory_used"]) == (150_000_000_000, 90)
    ours, gone = first["processes"]
    assert (ours["memory"], ours["ours"], "python" in ours["command"]) == (60, True, True)
    assert (gone["ours"], gone["command"]) == (False, None)


def test_without_a_driver_there_are_no_gpus_and_it_says_so() -> None:
    code = "import json; from blocks.supervisor import gpus; print(json.dumps(gpus.facts()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    if found["driver"] is None:
        assert found["gpus"] == []
        assert "no NVIDIA driver" in found["problem"]


def test_only_gpus_of_this_service_are_waited_for() -> None:
    found = [{"index": 0, "memory_used": 500}, {"index": 1, "memory_used": 900}]
    assert above_baseline(found, {"0": 100}, 300) == [found[0]]
    assert above_baseline(found, {"0": 100}, 400) == []
    assert above_baseline(found, {}, 0) == []


def test_gpus_that_could_not_be_looked_at_are_not_free() -> None:
    gpu = {"index": 0, "memory_used": 0}
    assert not_seen({"problem": None, "gpus": [gpu]}, {"0": 1}) is None
    assert not_seen({"problem": "NVML: x", "gpus": []}, {"0": 1}) == "NVML: x"
    missing = not_seen({"problem": None, "gpus": [gpu]}, {"0": 1, "1": 1, "7": 1})
    assert missing == "the driver lists no GPU 1, 7"


def test_pynvml_is_imported_once_and_no_longer_needs_its_file(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text((ROOT / pynvml_file()).read_text())
    code = (
        "import pathlib, sys; sys.path.insert(0, sys.argv[1]); from blocks.supervisor import gpus;"
        "first = gpus.facts()['problem']; pathlib.Path(sys.argv[1], 'pynvml.py').unlink();"
        "assert gpus.facts()['problem'] == first; assert 'import' not in str(first), first"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True)


def pynvml_file() -> str:
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None
    assert spec.origin is not None
    return spec.origin
