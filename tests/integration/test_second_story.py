"""Another service, other packages, other numbers: nothing of the first story is wired in."""

from dataclasses import dataclass
from typing import Any

import pytest

from deployments.sandbox import catalog
from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.prefect_api import FlowRun
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Told:
    """The second story after it was told once."""

    scene: Scene
    run: FlowRun
    record: dict[str, Any]
    was: dict[str, str]


@pytest.fixture(scope="module")
def told(second_host: Scene, server: Serving) -> Told:
    scene = second_host.fresh()
    was = on_host.packages(scene.host, scene.story.environment)
    run = redeploy(server, service=scene.service, skew="proceed")
    assert run.state.type == "COMPLETED", run.state.message
    return Told(scene, run, on_host.record(scene.host, run.id), was)


def test_the_packages_are_those_of_this_nightly(told: Told) -> None:
    story = told.scene.story
    wanted = catalog.packages(story.nightly)
    installed = on_host.packages(told.scene.host, story.environment)
    left = {name: version for name, version in told.was.items() if name not in wanted}
    assert left
    assert "flashinfer-cubin" in left
    assert installed == {**left, **wanted, "flashinfer-cubin": story.nightly.flashinfer}
    assert told.record["locked"] == len(wanted) + 1  # and cubin, which was asked for beside vLLM
    assert told.record["packages"] == len(installed)


def test_the_number_of_commits_is_called_unknown(told: Told) -> None:
    assert told.record["delta"]["count"] is None
    assert told.record["delta"]["why"]


def test_what_moved_is_what_differs_on_the_host(told: Told) -> None:
    installed = on_host.packages(told.scene.host, told.scene.story.environment)
    moved = {
        one["name"]
        for one in told.record["changes"]["changes"]
        if one["change"] in ("up", "down", "added")
    }
    names = installed.keys() | told.was.keys()
    assert moved == {name for name in names if installed.get(name) != told.was.get(name)}
    changes = {one["name"]: one["change"] for one in told.record["changes"]["changes"]}
    assert changes["flashinfer-python"] == changes["flashinfer-cubin"] == "down"


def test_the_attempts_are_red_and_green(told: Told, server: Serving) -> None:
    states = [(one.name, one.state.type) for one in server.api.nested(told.run.id)]
    assert states == [("attempt 1", "FAILED"), ("attempt 2", "COMPLETED")]
    flashinfer, cubin = told.scene.story.nightly.flashinfer, told.scene.story.cubin
    said = [one.message for one in on_host.journal(told.scene.host, told.scene.story.unit)]
    crash = f"flashinfer-cubin version ({cubin}) does not match flashinfer version ({flashinfer})"
    assert any(crash in line for line in said)


def test_the_debug_files_are_counted_and_the_files_are_as_recorded(told: Told) -> None:
    story = told.scene.story
    assert len(told.record["files_removed"]) == story.debug_files.count
    assert told.record["bytes_removed"] == story.debug_files.total_bytes
    assert on_host.differing(told.scene.host, story.environment) == []
    assert on_host.lines_with(told.scene.host, f"{story.environment}/lib", story.markers) == []


def test_the_service_serves(told: Told) -> None:
    scene = told.scene
    version = {"version": scene.story.nightly.version}
    assert on_host.http(scene.host, f"{scene.url}/version") == version
    assert told.record["benchmark"]["failed"] == 0
    assert set(on_host.started(scene.host, told.run.id).values()) == {1}
