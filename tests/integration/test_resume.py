"""The flow's process is killed again and again: no operation is done twice, the end is reached."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from deployments.sandbox import hosts
from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.polling import until
from tests.integration.prefect_api import FlowRun, PrefectApi
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

KILLED_IN = (
    "reinstall",
    "verify",
    "attempt-1/wait-healthy",
    "attempt-1/diagnose-journal",
    "attempt-2/wait-healthy",  # after an attempt that failed
)
BETWEEN = "verify"
"""Here the process is frozen until the host has finished the step: no other is under way then."""
CUT_SECONDS = 15


@dataclass
class Killed:
    """A redeploy whose process was killed in each of the steps, and what became of it."""

    scene: Scene
    run: FlowRun
    killed_at: dict[str, float] = field(default_factory=dict)

    def under_way(self, step: str) -> set[str]:
        """Return what was under way on the host when the process was killed in that step."""
        now = self.killed_at[step]
        log = on_host.operations(self.scene.host, self.run.id)
        before = [line for line in log if line.time < now]
        begun = {line.step for line in before if line.event == "started"}
        return begun - {line.step for line in before if line.event in ("finished", "failed")}


@pytest.fixture(scope="module")
def killed(kimi_host: Scene, server: Serving) -> Killed:
    scene = kimi_host.fresh()
    run = server.api.start(service=scene.service, skew="proceed", benchmark=False)
    story = Killed(scene, run)
    with on_host.following(scene.host) as log:
        for step in KILLED_IN:
            log.wait_for("started", step)
            if step == BETWEEN:
                server.freeze(run.id)
                log.wait_for("finished", step)
            server.kill(run.id)
            story.killed_at[step] = time.time()  # a sandbox host has this machine's clock
            server.api.wait(run.id, "CRASHED", seconds=30)
            _resume(server.api, run.id)
    story.run = server.api.wait(run.id, seconds=120)
    return story


def test_the_redeploy_reaches_its_end(killed: Killed) -> None:
    assert killed.run.state.type == "COMPLETED", killed.run.state.message
    assert killed.run.run_count == 1 + len(KILLED_IN)
    scene = killed.scene
    version = {"version": scene.story.nightly.version}
    assert on_host.http(scene.host, f"{scene.url}/version") == version
    assert on_host.packages(scene.host, scene.story.environment)["flashinfer-cubin"] == "0.6.4"


def test_no_operation_was_started_twice(killed: Killed) -> None:
    started = on_host.started(killed.scene.host, killed.run.id)
    assert set(started.values()) == {1}
    assert {"reinstall", "attempt-1/fix", "attempt-2/wait-healthy", "record"} <= set(started)
    events = [line.event for line in on_host.operations(killed.scene.host, killed.run.id)]
    assert "interrupted" not in events


def test_one_kill_fell_between_two_steps_and_others_within_one(killed: Killed) -> None:
    assert killed.under_way(BETWEEN) == set()
    assert killed.under_way("reinstall") == {"reinstall"}
    assert killed.under_way("attempt-2/wait-healthy") == {"attempt-2/wait-healthy"}


def test_attempt_1_is_red_again_and_named_a_replay(killed: Killed, prefect: PrefectApi) -> None:
    runs = prefect.nested(killed.run.id)
    red = [one for one in runs if one.state.type == "FAILED"]
    assert red
    assert {one.name for one in red} == {"attempt 1 (replayed)"}
    for one in red:
        failed = {task.name for task in prefect.tasks(one.id) if task.state.type == "FAILED"}
        assert failed == {"wait healthy"}
    green = [one.name for one in runs if one.state.type == "COMPLETED"]
    assert len(green) == 1
    assert green[0].startswith("attempt 2")


def test_the_record_knows_two_attempts(killed: Killed) -> None:
    record = on_host.record(killed.scene.host, killed.run.id)
    assert [one["outcome"] for one in record["attempts"]] == ["failed", "healthy"]
    assert record["result"] == "live"
    assert record["delta"]["count"] == 31
    assert len(record["files_removed"]) == 35
    assert on_host.locks(killed.scene.host) == []


def test_a_cut_link_is_waited_for(small_host: Scene, prefect: PrefectApi) -> None:
    scene = small_host.fresh()
    run = prefect.start(service=scene.service, benchmark=False)
    with on_host.following(scene.host) as log, _healed(scene):
        log.wait_for("started", "attempt-1/wait-healthy")
        hosts.cut(scene.host.name)
        time.sleep(CUT_SECONDS)
        assert prefect.flow_run(run.id).state.type == "RUNNING"
    ended = prefect.wait(run.id, seconds=120)
    assert ended.state.type == "COMPLETED", ended.state.message
    assert set(on_host.started(scene.host, run.id).values()) == {1}


def test_of_two_at_once_one_is_refused_or_waits(small_host: Scene, server: Serving) -> None:
    scene = small_host.fresh()
    first = server.api.start(service=scene.service, benchmark=False)
    with on_host.following(scene.host) as log:
        log.wait_for("started", "reinstall")
    refused = redeploy(server, service=scene.service, benchmark=False)
    assert refused.state.type == "FAILED"
    assert f"is held by {first.id}" in str(refused.state.message)
    waited = redeploy(server, service=scene.service, benchmark=False, wait_minutes=3)
    assert server.api.wait(first.id, seconds=5).state.type == "COMPLETED"
    assert waited.state.type == "COMPLETED"
    assert "Nothing to do" in str(waited.state.message)


def _resume(api: PrefectApi, run: str) -> None:
    """Do what Retry does, until the run is under way again; a crash can be reported twice."""
    before = api.flow_run(run).run_count

    def under_way() -> bool:
        found = api.flow_run(run)
        if found.state.type == "CRASHED" and found.run_count == before:
            api.resume(run)
        return found.run_count > before

    until(under_way, f"run {run} under way again", 60, pause=0.5)


@contextmanager
def _healed(scene: Scene) -> Iterator[None]:
    """Put the cable back, whatever happens in the block."""
    try:
        yield
    finally:
        hosts.heal(scene.host.name)
