"""A redeploy whose flow is gone: its host ends it alone, on the old release or on the new one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.sandbox import ssh, story
from deployments.sandbox.stories import STORIES
from tests.chaos.checker import violations
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.in_process import save_blocks
from tests.integration.polling import until
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(240)]

GRACE = "grace_seconds = 5\n"
SETTLED_SECONDS = 90
BROKEN = b"[Service]\nExecStart=\nExecStart=/bin/false\n"


@pytest.fixture(scope="module")
def left_host(server: Serving, workshop: Path) -> Iterator[Scene]:
    """A host that waits for five seconds only."""
    asked = {"service": "small-left", "extra": GRACE + QUICK}
    with on_stage(5, STORIES["small"], workshop, **asked, load_seconds=3) as scene:
        scene.publish(lambda config: save_blocks(server, config))
        yield scene


@pytest.fixture
def left(left_host: Scene) -> Scene:
    return left_host.fresh()


def killed_in(server: Serving, scene: Scene, step: str) -> str:
    """Begin a redeploy, kill its process in a step for good, and return its id."""
    run = server.api.start(service=scene.service, benchmark=False)
    with on_host.following(scene.host) as log:
        log.wait_for("started", step)
        server.kill(run.id)
    return run.id


def settled(scene: Scene) -> None:
    until(
        lambda: (
            not on_host.matching(scene.host, f"{on_host.REMEMBERED}/open/*.json")
            and not on_host.units(scene.host, "redeploy-*")
        ),
        "nothing is under way any more",
        SETTLED_SECONDS,
        pause=0.5,
    )


def test_killed_while_it_loads_the_new_release_is_kept(left: Scene, server: Serving) -> None:
    run = killed_in(server, left, "attempt-1/wait-healthy")
    settled(left)
    assert violations(left) == []
    record = on_host.record(left.host, run)
    assert record["result"] == "live"
    assert "by itself" in record["verdict"]
    assert "revert" not in on_host.started(left.host, run)


def test_killed_after_a_start_that_failed_the_host_goes_back(left: Scene, server: Serving) -> None:
    story.set_failure(left.host, "crash", "loading", version=left.story.nightly.version)
    run = killed_in(server, left, "attempt-1/wait-healthy")
    settled(left)
    story.clear_failure(left.host)
    assert violations(left) == []
    record = on_host.record(left.host, run)
    assert record["result"] == "rolled back"
    assert on_host.started(left.host, run)["revert"] == 1


def by_hand(scene: Scene, *words: str) -> str:
    """Roll back on the host itself, as a person does there."""
    done = ssh.run(
        scene.host, "/usr/local/sbin/redeploy-supervisor", "rollback", *words, check=False
    )
    return f"{done.returncode} {done.stdout.decode().strip()}"


def test_a_person_goes_back_on_the_host_with_no_controller(left: Scene, server: Serving) -> None:
    run = server.api.start(service=left.service, benchmark=False)
    assert server.api.wait(run.id, seconds=90).state.type == "COMPLETED"
    assert violations(left) == []
    old = left.story.old.version
    assert by_hand(left) == f"0 Rolled back to {old} by hand; serving."
    assert violations(left) == []
    assert on_host.http(left.host, f"{left.url}/version") == {"version": old}


def test_a_person_ends_a_redeploy_that_is_under_way(left: Scene, server: Serving) -> None:
    run = server.api.start(service=left.service, benchmark=False)
    with on_host.following(left.host) as log:
        log.wait_for("started", "attempt-1/wait-healthy")
    old = left.story.old.version
    assert by_hand(left, left.story.unit) == f"0 Rolled back to {old} by hand; serving."
    ended = server.api.wait(run.id, seconds=60)
    assert ended.state.type == "FAILED"
    assert ended.state.message == f"Rolled back to {old} by hand; serving."
    assert violations(left) == []


def guard_of(scene: Scene) -> str:
    found = on_host.matching(scene.host, "/etc/systemd/system/redeploy-guard-*.service")
    return Path(found[0]).name


def test_a_guard_that_was_stopped_stands_again_before_the_stop(
    left: Scene, server: Serving
) -> None:
    with on_host.following(left.host) as log:
        run = server.api.start(service=left.service, benchmark=False)
        log.wait_for("started", "reinstall")
        guard = guard_of(left)
        ssh.run(left.host, "systemctl", "stop", guard)
        log.wait_for("started", "attempt-1/start")
        assert on_host.unit(left.host, guard)["ActiveState"] == "active"
    assert server.api.wait(run.id, seconds=90).state.type == "COMPLETED"
    assert violations(left) == []


def test_without_a_guard_nothing_is_stopped(left: Scene, server: Serving) -> None:
    before = on_host.unit(left.host, left.story.unit)
    with on_host.following(left.host) as log:
        run = server.api.start(service=left.service, benchmark=False)
        log.wait_for("started", "reinstall")
        guard = guard_of(left)
        broken = f"/run/systemd/system.control/{guard}.d"
        ssh.run(left.host, "mkdir", "-p", broken)
        ssh.run(left.host, "tee", f"{broken}/x.conf", stdin=BROKEN)
        ssh.run(left.host, "sh", "-c", f"systemctl daemon-reload; systemctl stop {guard}")
    ended = server.api.wait(run.id, seconds=60)
    ssh.run(left.host, "sh", "-c", f"rm -r {broken}; systemctl daemon-reload")
    assert ended.state.type == "FAILED"
    assert "could not be set to go back by itself" in str(ended.state.message)
    assert str(ended.state.message).count("The service was not stopped") == 1
    assert str(ended.state.message).endswith("journalctl -u 'redeploy-guard-*'.")  # no diagnosis
    assert on_host.unit(left.host, left.story.unit) == before
    assert violations(left) == []
