"""The checker of the chaos runs is red for everything that it is there to find."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.sandbox import ssh
from deployments.sandbox.stories import STORIES
from tests.chaos.checker import violations
from tests.integration.on_host import REMEMBERED
from tests.integration.polling import until
from tests.integration.scenes import Scene, on_stage

pytestmark = [pytest.mark.host, pytest.mark.timeout(180)]

STORY = STORIES["small"]
ENVIRONMENT = STORY.environment
LINE = '{"time": 1, "event": "%s", "operation": "r/stop", "verb": "stop", "holder": "r"}'
LEDGER = f'{{"environment": "{ENVIRONMENT}", "folders": {{"1": {{"state": "live"}}}}}}'
RECORD = '{"time": "2", "result": "%s", "after": "%s", "before": "%s"}'

METADATA = f"{ENVIRONMENT}/lib/python3.11/site-packages/vllm-*.dist-info/METADATA"
CLAIMS = "sed -i 's/^Version: .*/Version: %s/' " + METADATA
UNPLANNED = f'{{"time": "2", "result": "live", "after": "{STORY.old.version}", "unplanned": ["a"]}}'

PLANTED = {
    "no record says so": (CLAIMS % STORY.nightly.version, CLAIMS % STORY.old.version),
    "are not as planned": (
        f"mkdir -p {REMEMBERED}/releases && echo {shlex.quote(UNPLANNED)} "
        f"> {REMEMBERED}/releases/r.json",
        f"rm -r {REMEMBERED}/releases",
    ),
    "nobody answers": (f"systemctl stop {STORY.unit}", f"systemctl start {STORY.unit}"),
    "is not as its RECORD says": (
        f"echo >> {ENVIRONMENT}/lib/python3.11/site-packages/vllm/__init__.py",
        f"truncate -s -1 {ENVIRONMENT}/lib/python3.11/site-packages/vllm/__init__.py",
    ),
    "live is recorded as": (
        f"mkdir -p {REMEMBERED}/environments && "
        f"echo {shlex.quote(LEDGER)} > {REMEMBERED}/environments/1.json",
        f"rm -r {REMEMBERED}/environments",
    ),
    "the record says 'down'": (
        f"mkdir -p {REMEMBERED}/releases && echo "
        f"{shlex.quote(RECORD % ('down', STORY.nightly.version, STORY.old.version))} "
        f"> {REMEMBERED}/releases/r.json",
        f"rm -r {REMEMBERED}/releases",
    ),
    "the record says 'live'": (
        f"mkdir -p {REMEMBERED}/releases && echo "
        f"{shlex.quote(RECORD % ('live', STORY.nightly.version, STORY.old.version))} "
        f"> {REMEMBERED}/releases/r.json",
        f"rm -r {REMEMBERED}/releases",
    ),
    "env.12345678 is left over": (
        f"mkdir {ENVIRONMENT}.12345678",
        f"rmdir {ENVIRONMENT}.12345678",
    ),
    "was started 2 times": (
        f"mkdir -p {REMEMBERED} && for i in 1 2; do echo {shlex.quote(LINE % 'started')}; done "
        f">> {REMEMBERED}/operations.jsonl",
        f"rm {REMEMBERED}/operations.jsonl",
    ),
    "was started again after it had ended": (
        f"mkdir -p {REMEMBERED} && for i in started finished interrupted started; do "
        f"echo {shlex.quote(LINE % 'EVENT')} | sed s/EVENT/$i/; done "
        f">> {REMEMBERED}/operations.jsonl",
        f"rm {REMEMBERED}/operations.jsonl",
    ),
    "locks/1.json is left over": (
        f"mkdir -p {REMEMBERED}/locks && echo '{{}}' > {REMEMBERED}/locks/1.json",
        f"rm -r {REMEMBERED}/locks",
    ),
    "the unit redeploy-guard-1.service is left over": (
        "systemd-run --quiet --unit=redeploy-guard-1 sleep 60",
        "systemctl stop redeploy-guard-1",
    ),
    "a mount is left over": (
        f"mkdir {ENVIRONMENT}/m && mount --bind /tmp {ENVIRONMENT}/m",
        f"umount {ENVIRONMENT}/m && rmdir {ENVIRONMENT}/m",
    ),
    "a process is left over": (
        "setsid bash -c 'exec -a redeploy-supervisor sleep 60' >/dev/null 2>&1 </dev/null &",
        "pkill -f '^redeploy-supervisor'",
    ),
}


@pytest.fixture(scope="module")
def scene(workshop: Path) -> Iterator[Scene]:
    with on_stage(6, STORY, workshop, load_seconds=0.2) as made:
        yield made


def test_a_host_on_which_nothing_happened_is_well(scene: Scene) -> None:
    assert violations(scene) == []


@pytest.mark.parametrize("said", PLANTED)
def test_what_is_planted_is_found_and_nothing_else(scene: Scene, said: str) -> None:
    plant, pull = PLANTED[said]
    ssh.run(scene.host, "bash", "-c", plant)
    found = violations(scene)
    ssh.run(scene.host, "bash", "-c", pull)
    assert [one for one in found if said in one], found
    until(lambda: not violations(scene), "the host is well again", 30)
