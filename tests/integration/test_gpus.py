"""GPUs in a redeploy: real pynvml on the host, against a stand-in for NVIDIA's library."""

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from deployments.sandbox import ssh
from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.nvml_stub import (
    CONFIGURATION,
    LIBRARY,
    StubGpu,
    StubProcess,
    build_stub,
    configuration,
)
from tests.integration.polling import until
from tests.integration.prefect_api import PrefectApi
from tests.integration.scenes import Scene
from tests.integration.serving import REDEPLOY, Serving

pytestmark = [
    pytest.mark.host,
    pytest.mark.timeout(180),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]

GIB = 1024**3
PLACE = f"/usr/local/lib/{LIBRARY}"


class Gpus:
    """Two GPUs on a host: the service uses the first one, somebody else both."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.ours = int(on_host.unit(scene.host, scene.story.unit)["MainPID"])
        self.other = 1

    def tell(self, *, ours: int, others: int = 2) -> None:
        """Say how many GiB the service and the others hold of the first one."""
        first = StubProcess(self.ours, ours * GIB), StubProcess(self.other, others * GIB)
        used = (ours + others) * GIB
        gpus = [
            StubGpu("GPU-1", "NVIDIA H200", 141 * GIB, used, first if ours else first[1:]),
            StubGpu("GPU-2", "NVIDIA H200", 141 * GIB, 3 * GIB, (StubProcess(1, 3 * GIB),)),
        ]
        on_host.write(self.scene.host, CONFIGURATION, configuration(gpus))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build_stub(tmp_path_factory.mktemp("nvml")).read_bytes()


@pytest.fixture
def gpus(small_host: Scene, library: bytes) -> Iterator[Gpus]:
    scene = small_host.fresh()
    ssh.run(scene.host, "install", "-m", "755", "/dev/stdin", PLACE, stdin=library)
    ssh.run(scene.host, "ldconfig")
    gpus = Gpus(scene)
    gpus.tell(ours=120)
    yield gpus
    ssh.run(scene.host, "rm", "-f", PLACE, CONFIGURATION)


def test_a_snapshot_shows_the_gpus_and_whose_memory_is_whose(gpus: Gpus, server: Serving) -> None:
    run = redeploy(server, service="small", plan_only=True)
    assert run.state.type == "COMPLETED", run.state.message
    found = on_host.answer(gpus.scene.host, f"{run.id}/snapshot")["result"]["gpus"]
    assert found["driver"] == "580.95.05"
    first, second = found["gpus"]
    assert (first["memory_total"], first["memory_used"]) == (141 * GIB, 122 * GIB)
    assert [(one["pid"], one["ours"]) for one in first["processes"]] == [
        (gpus.ours, True),
        (gpus.other, False),
    ]
    assert "vllm serve" in first["processes"][0]["command"]
    assert [one["ours"] for one in second["processes"]] == [False]


def test_a_start_waits_until_the_gpu_is_as_it_was_without_the_service(
    gpus: Gpus, prefect: PrefectApi
) -> None:
    host = gpus.scene.host
    run = prefect.start(service="small", benchmark=False)
    with on_host.following(host) as log:
        begun = log.wait_for("started", "attempt-1/start")
        until(lambda: _waits(gpus.scene, f"{run.id}/attempt-1/start"), "it waits for GPU 0", 5)
        assert on_host.unit(host, gpus.scene.story.unit)["ActiveState"] == "inactive"
        gpus.tell(ours=0)
        launched = log.wait_for("finished", "attempt-1/start")
    assert prefect.wait(run.id).state.type == "COMPLETED"
    waited = on_host.answer(host, f"{run.id}/attempt-1/start")["result"]["gpus_waited_seconds"]
    assert 0 < waited <= launched.time - begun.time


def test_a_busy_gpu_refuses_the_start_and_names_the_processes(
    gpus: Gpus, prefect: PrefectApi
) -> None:
    host = gpus.scene.host
    run = prefect.start(service="small", benchmark=False)
    with on_host.following(host) as log:
        refused = log.wait_for("failed", "attempt-1/start")
        gpus.tell(ours=0)
    ended = prefect.wait(run.id)
    error = on_host.answer(host, f"{run.id}/attempt-1/start")["error"]
    assert error["kind"] == "gpus-busy"
    assert error["pids"] == sorted([gpus.ours, gpus.other])
    assert str(gpus.ours) in error["message"]
    assert refused.error["kind"] == "gpus-busy"
    assert ended.state.type == "FAILED"
    assert str(ended.state.message).startswith(f"Rolled back to {gpus.scene.story.old.version}")
    version = {"version": gpus.scene.story.old.version}
    assert on_host.http(host, f"{gpus.scene.url}/version") == version


def test_without_a_driver_it_is_said_that_there_is_no_gpu(
    small_host: Scene, server: Serving
) -> None:
    scene = small_host.fresh()
    run = redeploy(server, service="small", plan_only=True)
    assert run.state.type == "COMPLETED"
    found = on_host.answer(scene.host, f"{run.id}/snapshot")["result"]["gpus"]
    assert found["gpus"] == []
    assert "no NVIDIA driver" in found["problem"]
    until(lambda: any("no GPU" in line for line in server.api.logs(run.id)), "the log", 10)
    status = [str(REDEPLOY), "status", "small", "--json", "--config", str(scene.config)]
    shown = json.loads(subprocess.run(status, capture_output=True, check=True).stdout)
    assert shown["facts"]["gpus"]["gpus"] == []


def _waits(scene: Scene, operation: str) -> bool:
    progress = f"{on_host.REMEMBERED}/operations/{operation}/progress.json"
    return on_host.exists(scene.host, progress) and "GPU 0" in on_host.read(scene.host, progress)
