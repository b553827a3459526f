"""The key of the service's API is used, and written down nowhere."""

import subprocess

import pytest

from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(180)]


def test_a_service_with_a_key_is_redeployed_and_the_key_kept_secret(
    small_host: Scene, server: Serving
) -> None:
    scene = small_host.fresh()
    key = scene.story.api_key
    assert key
    run = redeploy(server, service=scene.service)
    assert run.state.type == "COMPLETED", run.state.message
    assert on_host.record(scene.host, run.id)["benchmark"]["failed"] == 0
    remembered = (on_host.REMEMBERED, "/run", "/tmp", "/var/tmp")  # noqa: S108
    copy = f"{on_host.REMEMBERED}/units/{run.id}.json"  # the unit's environment file, for root
    assert on_host.files_with(scene.host, key, *remembered) == [copy]
    assert on_host.modes(scene.host, copy, on_host.REMEMBERED) == ["root 600", "root 700"]
    assert key not in on_host.whole_journal(scene.host)
    found = subprocess.run(
        ["grep", "-rlF", "-e", key, "--", server.home, server.output],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == ""
    for nested in (run, *server.api.nested(run.id)):
        assert not any(key in line for line in server.api.logs(nested.id))
