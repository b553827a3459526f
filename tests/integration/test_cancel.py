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
    run = server.api.start(service=scene.service, benchmark=False)
    with on_host.following(scene.host) as log:
        log.wait_for("started", step)
        server.api.cancel(run.id)
    server.api.wait(run.id, "CANCELLED", seconds=90)
    said = until(
        lambda: (
            [line for line in server.api.logs(run.id) if line.startswith("Cancelled. ")] or None
        ),
        "the run's log says what has become of it",
        20,
    )
    return run.id, said[-1]


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
