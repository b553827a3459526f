"""A run whose process, or whose server too, was killed goes on by itself to its end."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from deployments.by_itself import GOES_ON, HEARTBEAT_SECONDS, SETTLED_SECONDS
from deployments.sandbox.stories import STORIES
from tests.chaos.checker import violations
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.prefect_api import FlowRun
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving, serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(240)]

QUICKLY = {
    "VLLM_REDEPLOY_RESUMPTIONS": "3",
    "VLLM_REDEPLOY_SILENCE_SECONDS": str(HEARTBEAT_SECONDS + 1),
}


@pytest.fixture(scope="module")
def alone_host(workshop: Path) -> Iterator[Scene]:
    """A host whose server may be killed."""
    with on_stage(6, STORIES["small"], workshop, extra=QUICK, load_seconds=2) as scene:
        yield scene


@pytest.fixture
def alone(alone_host: Scene) -> Scene:
    return alone_host.fresh()


def served(scene: Scene, folder: Path) -> AbstractContextManager[Serving]:
    return serving(scene.config, folder, **QUICKLY)


def begun(server: Serving, scene: Scene, step: str) -> FlowRun:
    """Begin a redeploy and return when it is in a step."""
    run = server.api.start(service=scene.service, benchmark=False)
    with on_host.following(scene.host) as log:
        log.wait_for("started", step)
    return run


def went_on_once(server: Serving, scene: Scene, run: FlowRun) -> None:
    ended = server.api.wait(run.id, "COMPLETED", "FAILED", "CANCELLED", seconds=60)
    assert ended.state.type == "COMPLETED", ended.state.message
    assert ended.run_count == 2
    made = [one for one in server.api.states(run.id) if str(one.message).startswith(GOES_ON)]
    assert [one.name for one in made] == ["AwaitingRetry"]
    assert set(on_host.started(scene.host, run.id).values()) == {1}
    assert violations(scene) == []


def test_a_killed_process_is_followed_by_another(alone: Scene, tmp_path: Path) -> None:
    with served(alone, tmp_path) as server:
        run = begun(server, alone, "reinstall")
        server.kill(run.id)
        at = time.monotonic()
        server.api.wait(run.id, "RUNNING", seconds=SETTLED_SECONDS + 40, count=2)
        print(f"runs again after {time.monotonic() - at:.0f} s")
        went_on_once(server, alone, run)


def test_a_killed_server_goes_on_when_it_is_there_again(alone: Scene, tmp_path: Path) -> None:
    with served(alone, tmp_path) as server:
        run = begun(server, alone, "attempt-1/wait-healthy")
        flow = server.child_of(run.id)
        assert flow
        for pid in (server.process.pid, flow):
            os.kill(pid, signal.SIGKILL)
        at = time.monotonic()
        server.process.wait()
    with served(alone, tmp_path) as again:
        again.api.wait(run.id, "RUNNING", seconds=HEARTBEAT_SECONDS + SETTLED_SECONDS + 60, count=2)
        print(f"runs again after {time.monotonic() - at:.0f} s")
        went_on_once(again, alone, run)
        assert len(again.api.automations()) == 1
