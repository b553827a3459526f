"""Every failure that the stand-in can have: the new release fails, the old one serves again."""

import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.sandbox import catalog
from deployments.sandbox.stories import STORIES
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.failing import Case, Ended, Failing, shared
from tests.integration.in_process import redeploy, save_blocks
from tests.integration.on_host import Logged
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(240)]

NOTICED_SECONDS = 3.0
DEADLINE_SECONDS = 6

FAILURES: tuple[Case, ...] = runpy.run_path(
    str(catalog.HERE / "packages/vllm/standin/failures.py")
)["FAILURES"]
WHILE_STARTING = [one for one in FAILURES if one[1] != "serving"]
DEATHS = [one for one in WHILE_STARTING if one[0] != "hang"]
HANGS = [one for one in WHILE_STARTING if one[0] == "hang"]
WHILE_SERVING = [one for one in FAILURES if one[1] == "serving"]


@pytest.fixture(scope="module")
def pair(small_host: Scene, server: Serving, workshop: Path) -> Iterator[list[Scene]]:
    """Two hosts of the small story, with a load time of one second."""
    asked = {"service": "small-too", "extra": QUICK}
    with on_stage(4, STORIES["small"], workshop, **asked, load_seconds=1) as other:
        other.publish(lambda config: save_blocks(server, config))
        yield [small_host.fresh(), other]


@pytest.fixture(scope="module")
def failing(
    request: pytest.FixtureRequest, pair: list[Scene], server: Serving
) -> Iterator[Failing]:
    """Every selected case, under way on two hosts."""
    cases = [
        (str(item.callspec.params["kind"]), str(item.callspec.params["stage"]))
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path == request.path
        and hasattr(item, "callspec")
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_REDEPLOY_READY_PATIENCE_SECONDS", "4")
        with shared(server, pair, cases) as failing:
            yield failing


@pytest.mark.parametrize(("kind", "stage"), DEATHS)
def test_a_death_is_noticed_and_the_old_release_serves_again(
    failing: Failing, kind: str, stage: str
) -> None:
    ended = failing.end_of(kind, stage)
    _assert_rolled_back(ended)
    error = ended.watch["error"]
    assert error["kind"] == ("exited" if kind == "exit0" else "crashed")
    assert error["noticed_after_seconds"] < NOTICED_SECONDS
    _assert_noticed_by_the_hosts_own_clock(ended)
    _assert_last_lines_are_shown(ended)


@pytest.mark.parametrize(("kind", "stage"), HANGS)
def test_a_hang_ends_at_the_deadline_and_the_old_release_serves_again(
    failing: Failing, kind: str, stage: str
) -> None:
    ended = failing.end_of(kind, stage)
    _assert_rolled_back(ended)
    assert ended.watch["error"]["kind"] == "hung"
    waited = ended.watch["finished"] - ended.start["started"]
    assert DEADLINE_SECONDS <= waited < DEADLINE_SECONDS + NOTICED_SECONDS
    _assert_last_lines_are_shown(ended)


@pytest.mark.parametrize(("kind", "stage"), WHILE_SERVING)
def test_a_failure_right_after_the_start_is_seen_and_the_old_release_serves_again(
    failing: Failing, kind: str, stage: str
) -> None:
    ended = failing.end_of(kind, stage)
    _assert_rolled_back(ended)
    failed = [line for line in ended.log if line.event == "failed"]
    if kind == "hang":  # under the benchmark, or already when it is asked whether it serves
        asked = "does not serve as asked" in str(ended.run.state.message)
        assert asked or failed[0].error["kind"] == "hung"
    else:
        assert failed[0].error["kind"] in ("crashed", "exited")
        assert _operations_begun_between(_death(ended), failed[0], ended) <= 1


def test_without_a_failure_the_same_host_is_redeployed(
    failing: Failing, pair: list[Scene], server: Serving
) -> None:
    failing.all_over()
    scene = pair[0]
    run = redeploy(server, service=scene.service, benchmark=False, reinstall=True)
    assert run.state.type == "COMPLETED"
    installed = on_host.packages(scene.host, scene.story.environment)
    assert installed["vllm"] == scene.story.nightly.version


def _assert_rolled_back(ended: Ended) -> None:
    old = ended.scene.story.old.version
    assert ended.run.state.type == "FAILED"
    assert str(ended.run.state.message).startswith(f"Rolled back to {old}; serving.")
    assert ended.installed["vllm"] == old
    assert ended.serves == {"version": old}
    assert (ended.unit["ActiveState"], ended.unit["SubState"]) == ("active", "running")
    assert ended.record["result"] == "rolled back"
    started = Counter(line.step for line in ended.log if line.event == "started")
    assert set(started.values()) == {1}
    assert ended.locks == []


def _assert_noticed_by_the_hosts_own_clock(ended: Ended) -> None:
    """Compare systemd's own line about the death with the line in the operation log."""
    noticed = next(
        line.time
        for line in ended.log
        if (line.event, line.step) == ("failed", "attempt-1/wait-healthy")
    )
    assert 0 <= noticed - _death(ended) < NOTICED_SECONDS
    assert abs(ended.watch["error"]["died_at"] - _death(ended)) < 1


def _operations_begun_between(death: float, failed: Logged, ended: Ended) -> int:
    """Return how many operations began after a death, up to the one that failed of it.

    A death is seen by the watch that is under way, else by the next operation.
    """
    begun = [line.time for line in ended.log if line.event == "started"]
    return sum(death < time < failed.time for time in begun)


def _death(ended: Ended) -> float:
    """Return when the new release's start ended, in systemd's own words."""
    return next(
        entry.time
        for entry in ended.journal
        if entry.identifier == "systemd"
        and entry.invocation == ended.start["invocation"]
        and ("Main process exited" in entry.message or "Deactivated" in entry.message)
    )


def _assert_last_lines_are_shown(ended: Ended) -> None:
    for line in ended.watch["error"]["last_lines"]:
        assert str(line).strip() in ended.diagnosis
