"""Real pynvml reads the stub as it would read the driver's library."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.nvml_stub import StubGpu, StubProcess, build_stub, configuration

PROBE = """
import json, pynvml
pynvml.nvmlInit()
found = []
for i in range(pynvml.nvmlDeviceGetCount()):
    handle = pynvml.nvmlDeviceGetHandleByIndex(i)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    newer = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    found.append({
        "name": pynvml.nvmlDeviceGetName(handle),
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "memory": [memory.total, memory.used, newer.total, newer.used],
        "processes": [
            [one.pid, one.usedGpuMemory]
            for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        ],
    })
print(json.dumps({"driver": pynvml.nvmlSystemGetDriverVersion(), "gpus": found}))
"""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def probe(folder: Path, text: str | None) -> subprocess.CompletedProcess[str]:
    build_stub(folder)
    conf = folder / "conf"
    if text is not None:
        conf.write_text(text)
    return subprocess.run(
        [sys.executable, "-c", PROBE],
        env=os.environ | {"LD_LIBRARY_PATH": str(folder), "NVML_STUB_CONF": str(conf)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_says_what_its_configuration_says(tmp_path: Path) -> None:
    gpus = [
        StubGpu(
            "GPU-1", "NVIDIA H200", 150_000_000_000, 90, (StubProcess(7, 60), StubProcess(8, 30))
        ),
        StubGpu("GPU-2", "NVIDIA H200", 150_000_000_000, 0),
    ]
    done = probe(tmp_path, configuration(gpus))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["driver"] == "580.95.05"
    assert found["gpus"] == [
        {
            "name": gpu.name,
            "uuid": gpu.uuid,
            "memory": [gpu.total, gpu.used, gpu.total, gpu.used],
            "processes": [[one.pid, one.memory] for one in gpu.processes],
        }
        for gpu in gpus
    ]


def test_without_a_configuration_there_is_no_driver(tmp_path: Path) -> None:
    done = probe(tmp_path, None)
    assert "NVMLError_DriverNotLoaded" in done.stderr


def test_can_fail_as_a_broken_driver_does(tmp_path: Path) -> None:
    done = probe(tmp_path, "fail 18\n")
    assert "NVMLError_LibRmVersionMismatch" in done.stderr
