"""The disk under the host's state folder is full: nothing is begun, or it is gone through with."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployments.sandbox import story
from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.on_host import REMEMBERED
from tests.integration.prefect_api import FlowRun
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(240)]

FILLED = f"{REMEMBERED}/filled"
OF_A_PROGRAM = ("Traceback", 'File "', "pydantic", "fault of the supervisor")


@pytest.fixture
def disk(request: pytest.FixtureRequest, small_host: Scene) -> Iterator[Scene]:
    """The small story, with a state folder on a file system of its own, of the size asked for."""
    scene = small_host.fresh()
    on_host.mount_small(scene.host, REMEMBERED, request.param)
    yield scene
    on_host.unmount(scene.host, REMEMBERED)


@pytest.mark.parametrize("disk", ["224k", "3m"], indirect=True)
def test_without_room_for_the_reserve_the_service_is_not_touched(
    disk: Scene, server: Serving
) -> None:
    before = on_host.unit(disk.host, disk.story.unit)
    run = redeploy(server, service=disk.service, benchmark=False)
    said = _said(run)
    assert run.state.type == "FAILED"
    assert f"{REMEMBERED} has no room for the 4 MiB" in said
    assert "Free space" in said
    assert on_host.unit(disk.host, disk.story.unit) == before
    assert on_host.operations(disk.host) == []
    assert on_host.locks(disk.host) == []


@pytest.mark.parametrize("disk", ["8m"], indirect=True)
@pytest.mark.parametrize("fails", [False, True], ids=["new", "old"])
def test_a_disk_that_fills_up_after_the_stop_does_not_keep_the_service_down(
    disk: Scene, server: Serving, fails: bool
) -> None:
    nightly, old = disk.story.nightly.version, disk.story.old.version
    if fails:
        story.set_failure(disk.host, "crash", "loading", version=nightly)
    run = _filled_after_the_stop(disk, server)
    story.clear_failure(disk.host)
    said, version = _said(run), old if fails else nightly
    assert said.startswith(f"Rolled back to {old}; serving." if fails else f"Serving {nightly}")
    assert run.state.type == ("FAILED" if fails else "COMPLETED")
    assert "not recorded" not in said
    assert on_host.http(disk.host, f"{disk.url}/version") == {"version": version}
    assert on_host.record(disk.host, run.id)["result"] == ("rolled back" if fails else "live")
    assert on_host.locks(disk.host) == []
    assert set(on_host.started(disk.host, run.id).values()) == {1}


@pytest.mark.parametrize("disk", ["8m"], indirect=True)
def test_without_even_the_reserve_the_verdict_is_true(disk: Scene, server: Serving) -> None:
    run = _filled_after_the_stop(disk, server, with_reserve=False)
    said = _said(run)
    assert run.state.type == "FAILED"
    assert "The disk is full" in said
    assert REMEMBERED in said
    down = on_host.unit(disk.host, disk.story.unit)["ActiveState"] != "active"
    assert down == ("DOWN" in said)


def _filled_after_the_stop(scene: Scene, server: Serving, *, with_reserve: bool = True) -> FlowRun:
    with ThreadPoolExecutor(1) as pool, on_host.following(scene.host) as log:
        run = pool.submit(
            redeploy, server, service=scene.service, strategy="classic", benchmark=False
        )
        log.wait_for("finished", "stop")
        if not with_reserve:
            on_host.remove(scene.host, f"{REMEMBERED}/reserve")
        on_host.fill(scene.host, FILLED)
        return run.result()


def _said(run: FlowRun) -> str:
    said = str(run.state.message)
    assert not [word for word in OF_A_PROGRAM if word in said], said
    return said
