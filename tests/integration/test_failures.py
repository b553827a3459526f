"""Every failure that the stand-in can have: the new release fails, the old one serves again."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.sandbox import catalog, story
from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.prefect_api import FlowRun, PrefectApi
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(120)]

NOTICED_SECONDS = 3.0


def _failures() -> tuple[tuple[str, str], ...]:
    path = Path(catalog.HERE, "packages/vllm/standin/failures.py")
    spec = importlib.util.spec_from_file_location("standin_failures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: tuple[tuple[str, str], ...] = module.FAILURES
    return found


FAILURES = _failures()
WHILE_STARTING = [one for one in FAILURES if one[1] != "serving"]
DEATHS = [one for one in WHILE_STARTING if one[0] != "hang"]
HANGS = [one for one in WHILE_STARTING if one[0] == "hang"]
WHILE_SERVING = [one for one in FAILURES if one[1] == "serving"]


@pytest.fixture
def small(small_host: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """The host as the case before left it, which is: on the old release, serving."""
    monkeypatch.setenv("VLLM_REDEPLOY_READY_PATIENCE_SECONDS", "4")
    small_host.untouched = False
    name = small_host.story.unit.removesuffix(".service")
    on_host.write(small_host.host, f"/etc/vllm/{name}.env", "VLLM_STANDIN_LOAD_SECONDS=1\n")
    yield small_host
    story.clear_failure(small_host.host)


@pytest.mark.parametrize(("kind", "stage"), DEATHS)
def test_a_death_is_noticed_and_the_old_release_serves_again(
    server: Serving, small: Scene, kind: str, stage: str
) -> None:
    story.set_failure(small.host, kind, stage, version=small.story.nightly.version)
    run = redeploy(server, service=small.service, benchmark=False)
    _assert_rolled_back(small, run)
    error = _error_of_start(small, run)
    assert error["kind"] == ("exited" if kind == "exit0" else "crashed")
    assert error["noticed_after_seconds"] < NOTICED_SECONDS
    _assert_noticed_by_the_hosts_own_clock(small, run, error)
    _assert_last_lines_are_shown(server.api, run, error)


@pytest.mark.parametrize(("kind", "stage"), HANGS)
def test_a_hang_ends_at_the_deadline_and_the_old_release_serves_again(
    server: Serving, small: Scene, kind: str, stage: str
) -> None:
    story.set_failure(small.host, kind, stage, version=small.story.nightly.version)
    run = redeploy(server, service=small.service, benchmark=False)
    _assert_rolled_back(small, run)
    error = _error_of_start(small, run)
    assert error["kind"] == "hung"
    launched = on_host.answer(small.host, f"{run.id}/attempt-1/start")["result"]["started"]
    finished = on_host.answer(small.host, f"{run.id}/attempt-1/wait-healthy")["finished"]
    assert 6 <= finished - launched < 6 + NOTICED_SECONDS
    _assert_last_lines_are_shown(server.api, run, error)


@pytest.mark.parametrize(("kind", "stage"), WHILE_SERVING)
def test_a_failure_right_after_the_start_is_seen_and_the_old_release_serves_again(
    server: Serving, small: Scene, kind: str, stage: str
) -> None:
    story.set_failure(
        small.host, kind, stage, version=small.story.nightly.version, after_seconds=0.5
    )
    run = redeploy(server, service=small.service, benchmark=True)
    _assert_rolled_back(small, run)


def test_without_a_failure_the_same_host_is_redeployed(server: Serving, small: Scene) -> None:
    run = redeploy(server, service=small.service, benchmark=False)
    assert run.state.type == "COMPLETED"
    installed = on_host.packages(small.host, small.story.environment)
    assert installed["vllm"] == small.story.nightly.version


def _assert_rolled_back(scene: Scene, run: FlowRun) -> None:
    host, old = scene.host, scene.story.old.version
    assert run.state.type == "FAILED"
    assert str(run.state.message).startswith(f"Rolled back to {old}; serving.")
    assert on_host.packages(host, scene.story.environment)["vllm"] == old
    assert on_host.http(host, f"{scene.url}/version") == {"version": old}
    unit = on_host.unit(host, scene.story.unit)
    assert (unit["ActiveState"], unit["SubState"]) == ("active", "running")
    record = on_host.record(host, run.id)
    assert record["result"] == "rolled back"
    assert set(on_host.started(host, run.id).values()) == {1}
    assert on_host.locks(host) == []


def _error_of_start(scene: Scene, run: FlowRun) -> dict[str, Any]:
    answer = on_host.answer(scene.host, f"{run.id}/attempt-1/wait-healthy")
    assert answer["state"] == "failed"
    error: dict[str, Any] = answer["error"]
    return error


def _assert_noticed_by_the_hosts_own_clock(
    scene: Scene, run: FlowRun, error: dict[str, Any]
) -> None:
    """Compare systemd's own line about the death with the line in the operation log."""
    launched = on_host.answer(scene.host, f"{run.id}/attempt-1/start")["result"]
    said = [
        entry
        for entry in on_host.journal(scene.host, scene.story.unit, since=launched["started"] - 1)
        if entry.identifier == "systemd" and entry.invocation == launched["invocation"]
    ]
    death = next(entry.time for entry in said if _is_death(entry.message))
    log = on_host.operations(scene.host, run.id)
    noticed = next(
        line.time
        for line in log
        if line.step == "attempt-1/wait-healthy" and line.event == "failed"
    )
    assert 0 <= noticed - death < NOTICED_SECONDS
    assert abs(error["died_at"] - death) < 1


def _is_death(message: str) -> bool:
    return "Main process exited" in message or "Deactivated successfully" in message


def _assert_last_lines_are_shown(api: PrefectApi, run: FlowRun, error: dict[str, Any]) -> None:
    attempt = api.nested(run.id)[0]
    pages = {one.key: str(one.data) for one in api.artifacts(attempt.id)}
    page = pages["small-diagnosis"]
    for line in error["last_lines"]:
        assert str(line).strip() in page
