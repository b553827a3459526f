"""A start waits for the GPUs of its service, with a driver that says what it is told."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.nvml_stub import (
    CONFIGURATION,
    LIBRARY,
    StubGpu,
    StubProcess,
    build_stub,
    configuration,
)
from tests.integration.supervisor.bench import UNIT, Bench

pytestmark = pytest.mark.host


@pytest.fixture
def gpus(bench: Bench, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """A GPU driver that says what it is told to say."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    library = f"/usr/lib/{LIBRARY}"
    bench.host.put(build_stub(tmp_path).read_bytes(), library)
    bench.launch("serve")
    yield lambda told: bench.host.put(told.encode(), CONFIGURATION)
    bench.host.run(["rm", "-f", library, CONFIGURATION])


def held(used: int) -> str:
    gpu = StubGpu("GPU-1", "NVIDIA H200", 10**11, used, (StubProcess(1, used),))
    return configuration([gpu, gpu])


WAITING = {"unit": UNIT, "baseline": {"1": 10**6}, "tolerance_bytes": 10**6}


def test_a_start_waits_for_this_services_gpus(bench: Bench, gpus: Callable[[str], None]) -> None:
    gpus(held(10**10))
    busy = bench.do("busy", "start", gpu_wait_seconds=1, **WAITING).error or {}
    releasing = threading.Timer(3, gpus, [held(0)])
    releasing.start()
    started = bench.do("free", "start", gpu_wait_seconds=60, **WAITING)
    releasing.join()
    assert (busy["kind"], busy["pids"]) == ("gpus-busy", [1])
    assert started.state == "succeeded", started.error
    assert (started.result or {})["gpus_waited_seconds"] > 1


@pytest.mark.parametrize("told", ["fail 999\n", configuration([])])
def test_gpus_that_cannot_be_looked_at_are_waited_for_and_not_taken_for_free(
    bench: Bench, gpus: Callable[[str], None], told: str
) -> None:
    gpus(told)
    unknown = bench.do("unknown", "start", gpu_wait_seconds=2, **WAITING)
    repairing = threading.Timer(3, gpus, [held(0)])
    repairing.start()
    started = bench.do("seen", "start", gpu_wait_seconds=60, **WAITING)
    repairing.join()
    assert (unknown.error or {})["kind"] == "gpus-unknown"
    assert (unknown.finished or 0) - unknown.started >= 2
    assert started.state == "succeeded", started.error
    assert (started.result or {})["gpus_waited_seconds"] > 1
