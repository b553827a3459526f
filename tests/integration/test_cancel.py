"""A run that a person cancels: nothing was changed on the host, or the host goes back."""

import pytest

from tests.chaos.checker import violations
from tests.integration import on_host
from tests.integration.polling import until
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(180)]


def cancelled_in(server: Serving, scene: Scene, step: str) -> tuple[str, str]:
    """Cancel a redeploy in a step, as the UI does; return its id and the last line of its log."""
    with on_host.following(scene.host) as log:
        run = server.api.start(service=scene.service, benchmark=False)
        log.wait_for("started", step)
        server.api.cancel(run.id)
    return run.id, said_at_the_end(server, run.id)


def said_at_the_end(server: Serving, run: str) -> str:
    """Wait for the last line of a cancelled run's log and return it."""
    server.api.wait(run, "CANCELLED", seconds=90)
    said = until(
        lambda: [line for line in server.api.logs(run) if line.startswith("Cancelled. ")] or None,
        "the run's log says what has become of it",
        20,
    )
    return said[-1]


def test_cancelled_while_it_stages_nothing_was_changed(small: Scene, server: Serving) -> None:
    before = on_host.unit(small.host, small.story.unit)
    run, said = cancelled_in(server, small, "reinstall")
    assert violations(small) == []
    assert on_host.unit(small.host, small.story.unit) == before
    assert "The service was not stopped." in said
    assert on_host.started(small.host, run)["discard"] == 1
    assert on_host.matching(small.host, f"{small.story.environment}.*") == []


def test_cancelled_while_it_loads_the_host_goes_back(small: Scene, server: Serving) -> None:
    run, said = cancelled_in(server, small, "attempt-1/wait-healthy")
    assert violations(small) == []
    old = small.story.old.version
    assert on_host.http(small.host, f"{small.url}/version") == {"version": old}
    assert f"Rolled back to {old}; serving. It was cancelled." in said
    record = on_host.record(small.host, run)
    assert (record["result"], record["verdict"]) == (
        "rolled back",
        said.removeprefix("Cancelled. "),
    )


def test_a_rollback_by_hand_that_is_cancelled_on_its_way_comes_to_its_end(
    small: Scene, server: Serving
) -> None:
    live = server.api.start(service=small.service, benchmark=False)
    assert server.api.wait(live.id, seconds=90).state.type == "COMPLETED"
    with on_host.following(small.host) as log:
        run = server.api.start_rollback(service=small.service, reason="it is slow").id
        log.wait_for("started", "revert")
        server.api.cancel(run)
    old = small.story.old.version
    assert said_at_the_end(server, run) == f"Cancelled. Rolled back to {old}; serving."
    assert violations(small) == []
    assert on_host.http(small.host, f"{small.url}/version") == {"version": old}
    assert on_host.record(small.host, run)["result"] == "live"
    assert set(on_host.started(small.host, run).values()) == {1}
    assert on_host.locks(small.host) == []
