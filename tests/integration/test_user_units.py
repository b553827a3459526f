"""A service that is a user's own unit is redeployed by that user: nothing needs root."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.sandbox import layout, ssh, story
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import STORIES, Story
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.in_process import save_blocks
from tests.integration.polling import until
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

GRACE = "grace_seconds = 5\n"
USER = "vllm"
HOME = f"/var/lib/{USER}"
STATE = f"{HOME}/.local/state/vllm-redeploy"
HAND_OVER = f"""
set -e
systemctl disable --now --quiet $1
mkdir -p {HOME}/.config/systemd/user
mv /etc/systemd/system/$1 /etc/systemd/system/$1.d {HOME}/.config/systemd/user/
sed -i -e /^User=/d -e s/multi-user/default/ {HOME}/.config/systemd/user/$1
cp -r /root/.ssh {HOME}/
chown -R {USER}: {HOME}
usermod --append --groups systemd-journal {USER}
loginctl enable-linger {USER}
systemctl daemon-reload
"""


@pytest.fixture
def own(server: Serving, workshop: Path) -> Iterator[Scene]:
    """A host whose service is a unit of the user who runs it."""
    asked = {"service": "small-own", "extra": GRACE + QUICK}
    with on_stage(6, STORIES["small"], workshop, **asked, load_seconds=1) as scene:
        _hand_over(scene.host, scene.story)
        scene.rewrite = lambda text: text.replace(
            'user = "root"', f'user = "{USER}"\nuser_units = true'
        )
        scene.describe()
        scene.publish(lambda config: save_blocks(server, config))
        yield scene


def _hand_over(host: SandboxHost, told: Story) -> None:
    ssh.run(host, "sh", "-s", told.unit, stdin=HAND_OVER.encode())
    as_user(host, "systemctl", "--user", "enable", "--now", "--quiet", told.unit)
    layout.wait_until_healthy(host, told)


def as_user(host: SandboxHost, *words: str) -> str:
    return ssh.run(host, *words, user=USER).stdout.decode()


def left(host: SandboxHost) -> list[str]:
    """Return what of ours is still under way or lies where root's would."""
    listed = as_user(host, "systemctl", "--user", "list-units", "--all", "--plain", "redeploy-*")
    patterns = (f"{STATE}/open/*.json", f"{STATE}/locks/*.json", "/var/lib/vllm-redeploy")
    ours = [line.split()[0] for line in listed.splitlines() if line.startswith("redeploy-")]
    return ours + [path for one in patterns for path in on_host.matching(host, one)]


def result(host: SandboxHost, redeploy: str) -> str:
    return str(json.loads(as_user(host, "cat", f"{STATE}/releases/{redeploy}.json"))["result"])


def test_a_users_own_unit_goes_back_and_goes_live_by_the_flow_by_hand_and_by_its_host(
    own: Scene, server: Serving
) -> None:
    story.set_failure(own.host, "crash", "loading", version=own.story.nightly.version)
    run = server.api.start(service=own.service)
    ended = server.api.wait(run.id, seconds=90)
    assert f"Rolled back to {own.story.old.version}; serving" in str(ended.state.message)
    assert (result(own.host, run.id), left(own.host)) == ("rolled back", [])
    assert on_host.http(own.host, f"{own.url}/version") == {"version": own.story.old.version}

    story.clear_failure(own.host)
    ended = server.api.wait(server.api.start(service=own.service).id, seconds=60)
    nightly = own.story.nightly.version
    assert f"Nothing was done: {nightly} was rejected here" in str(ended.state.message)
    run = server.api.start(service=own.service, target=nightly)
    ended = server.api.wait(run.id, seconds=90)
    assert ended.state.type == "COMPLETED", ended.state.message
    assert (result(own.host, run.id), left(own.host)) == ("live", [])
    assert on_host.http(own.host, f"{own.url}/version") == {"version": nightly}

    said = as_user(own.host, ".local/bin/redeploy-supervisor", "--user", "rollback").strip()
    assert said == f"Rolled back to {own.story.old.version} by hand; serving."
    assert left(own.host) == []

    run = server.api.start(service=own.service, target=nightly, benchmark=False)
    with on_host.following(own.host, f"{STATE}/operations.jsonl") as log:
        log.wait_for("started", "attempt-1/wait-healthy")
        server.kill(run.id)
        log.wait_for("let-go", "guard", seconds=90)
    until(lambda: left(own.host) == [], "nothing is under way any more", 30)
    assert result(own.host, run.id) == "live"

    ssh.run(own.host, "loginctl", "disable-linger", USER)
    run = server.api.start(service=own.service)
    ended = server.api.wait(run.id, seconds=60)
    assert f"loginctl enable-linger {USER}" in str(ended.state.message)
