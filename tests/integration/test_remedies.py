"""Every remedy that may run by itself: a start fails because of it, the flow cures it, it serves.

What is out of step is put out of step by the drain hook: after the new environment was proven and
before the service is stopped, as an operator's own job at the wrong moment would do it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from deployments.sandbox import layout, ssh, story
from deployments.sandbox.stories import STORIES
from tasks.diagnosis.rules import flashinfer
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.in_process import redeploy, save_blocks
from tests.integration.prefect_api import FlowRun
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(120)]

NEEDS = "/etc/vllm-standin-needs.json"
HOOK = "/etc/break-it"
HOOKS = f"""
drain_deadline_seconds = 0
drain = {{ argv = ["sh", "{HOOK}"] }}
undrain = {{ argv = ["true"] }}
restarts_tolerated = 1
"""
SMALL = STORIES["small"]
DROP_INS = f"/etc/systemd/system/{SMALL.unit}.d"
GROUP = f"/sys/fs/cgroup/system.slice/{SMALL.unit}"
CACHE = f"{layout.home(SMALL)}/.cache"
NEW = f"new=$(ls -d {SMALL.environment}.* | grep -E '[.][0-9a-f]{{8}}$')"
BOTH_LISTEN = f'test "$(ss -Hltn "sport = :{SMALL.port}" | wc -l)" = 2'
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENDED = f"left-over processes of {SMALL.unit} ended"
SLEEPS = "import time; time.sleep(1000)"
LISTENS = f"""
import socket, time
door = socket.socket()
door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
door.bind(("0.0.0.0", {SMALL.port}))
door.listen()
time.sleep(1000)
"""


@dataclass
class Patient:
    """A host of the small story, and what is wrong with it."""

    scene: Scene
    server: Serving

    def breaks(self, *scripts: str) -> None:
        """Have the drain hook do something."""
        on_host.write(self.scene.host, HOOK, "\n".join(("set -e", "cd /", *scripts, "")))

    def installing(self, *packages: str) -> str:
        """Return the script that puts packages into the new environment."""
        uv = ("uv", "pip", "install", "--quiet", "--no-deps", "--python", "$new/bin/python")
        index = layout.simple_index(self.scene.host, SMALL)
        user = f"runuser -u {SMALL.user} -- env HOME={layout.home(SMALL)}"
        return f"{NEW}\n{user} {' '.join(uv)} --default-index {index} {' '.join(packages)}"

    def leaving_over(self, program: str, ready: str = "true") -> str:
        """Return the script that leaves a process in the unit's control group, for every stop."""
        on_host.write(self.scene.host, "/etc/left-over.py", program)
        self.drop_in("20-kill.conf", "[Service]\nKillMode=process\n")
        who = f"setpriv --reuid={SMALL.user} --regid={SMALL.user} --clear-groups"
        begin = f"{who} python3 /etc/left-over.py </dev/null >/dev/null 2>&1 &"
        return f"{begin}\necho $! >{GROUP}/cgroup.procs\nuntil {ready}; do sleep 0.05; done"

    def needs(self, *names: str) -> None:
        """Have starts of the new release need something."""
        document = {"version": SMALL.nightly.version, "needs": names}
        on_host.write(self.scene.host, NEEDS, json.dumps(document))

    def drop_in(self, name: str, text: str) -> None:
        """Add a drop-in of the operator's own."""
        on_host.write(self.scene.host, f"{DROP_INS}/{name}", text)
        ssh.run(self.scene.host, "systemctl", "daemon-reload")

    def redeployed(self, **more: Any) -> tuple[FlowRun, dict[str, Any]]:
        """Redeploy, and return the run and the host's record of it."""
        target = SMALL.nightly.version  # by its name also where it was rejected before
        asked = {"target": target, "reinstall": True, "benchmark": False, "attempts": 5, **more}
        run = redeploy(self.server, service=self.scene.service, **asked)
        return run, on_host.record(self.scene.host, run.id)

    def cured(self, *cures: tuple[str, Sequence[str]]) -> dict[str, Any]:
        """Redeploy, and see that these rules' remedies, and no others, have led to a service."""
        run, record = self.redeployed()
        assert run.state.type == "COMPLETED", run.state.message
        *failed, healthy = record["attempts"]
        assert [(one["rule"], one["remedy"]) for one in failed] == [
            (rule, list(remedy)) for rule, remedy in cures
        ]
        assert healthy["outcome"] == "healthy"
        assert set(on_host.started(self.scene.host, run.id).values()) == {1}
        served = on_host.http(self.scene.host, f"{self.scene.url}/version")
        assert served == {"version": SMALL.nightly.version}
        return record

    def well(self) -> None:
        """Take away what was wrong, and what cured it."""
        script = f"rm -rf {NEEDS} {DROP_INS}/2* {DROP_INS}/zz-*; systemctl daemon-reload"
        ssh.run(self.scene.host, "sh", "-c", script)
        story.clear_failure(self.scene.host)
        self.breaks()


@pytest.fixture(scope="module")
def ward(server: Serving, workshop: Path) -> Iterator[Scene]:
    asked = {"service": "small-ill", "extra": QUICK + HOOKS}
    with on_stage(6, SMALL, workshop, **asked, load_seconds=0.2) as scene:
        scene.publish(lambda config: save_blocks(server, config))
        yield scene


@pytest.fixture
def ill(ward: Scene, server: Serving) -> Patient:
    patient = Patient(ward, server)
    patient.well()
    return patient


@pytest.fixture
def lacking(ill: Patient) -> Iterator[Patient]:
    """One whose cubin package is out of step, and whose indexes have no other."""
    scene = ill.scene
    index = layout.simple_index(scene.host, SMALL)
    lacks = index.replace("/simple", f"/{layout.NO_CUBIN}/simple")
    scene.rewrite = lambda text: text.replace(f'indexes = ["{index}"]', f'indexes = ["{lacks}"]')
    scene.describe()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flashinfer, "FLASHINFER_INDEX", lacks)
        ill.breaks(ill.installing("flashinfer-cubin==0.6.3"))
        yield ill
    scene.rewrite = str
    scene.describe()


def drop_ins(patient: Patient) -> list[str]:
    """Return the names of the drop-ins that are ours."""
    return on_host.matching(patient.scene.host, f"{DROP_INS}/zz-*")


def test_the_way_back_takes_the_drop_in_along_that_did_not_save_it(ill: Patient) -> None:
    ill.breaks(ill.installing("flashinfer-cubin==0.6.3"))
    ill.needs("no-symm-mem")
    story.set_failure(ill.scene.host, "crash", "engine", version=SMALL.nightly.version)

    run, record = ill.redeployed()

    assert str(run.state.message).startswith(f"Rolled back to {SMALL.old.version}; serving.")
    assert [(one["rule"], one["remedy"]) for one in record["attempts"]] == [
        ("symm-mem-rendezvous", ["Environment=VLLM_ALLREDUCE_USE_SYMM_MEM=0"]),
        ("flashinfer-cubin-skew", ["flashinfer-cubin==0.6.4"]),
        ("fabric-manager", None),
    ]
    removed = on_host.answer(ill.scene.host, f"{run.id}/revert")["result"]["drop_ins_removed"]
    assert len(removed) == 1
    assert drop_ins(ill) == []
    assert on_host.unit(ill.scene.host, SMALL.unit)["NeedDaemonReload"] == "no"


def test_what_systemd_cannot_execute_is_gone_back_from(ill: Patient) -> None:
    ill.breaks(NEW, "rm $new/bin/vllm")

    run, record = ill.redeployed()

    assert str(run.state.message).startswith(f"Rolled back to {SMALL.old.version}; serving.")
    assert [one["rule"] for one in record["attempts"]] == ["executable-missing"]


def test_the_way_back_ends_what_is_left_over_on_the_port(ill: Patient) -> None:
    ill.breaks(ill.leaving_over(LISTENS, BOTH_LISTEN))

    run, record = ill.redeployed(attempts=1)

    assert str(run.state.message).startswith(f"Rolled back to {SMALL.old.version}; serving.")
    assert [one["rule"] for one in record["attempts"]] == ["left-over-on-port"]


def test_without_any_source_and_compiler_a_person_is_asked(lacking: Patient) -> None:
    run, record = lacking.redeployed()

    assert str(run.state.message).startswith(f"Rolled back to {SMALL.old.version}; serving.")
    (failed,) = record["attempts"]
    assert (failed["rule"], failed["remedy"]) == ("flashinfer-cubin-skew", None)


def test_kernels_from_flashinfers_own_index(
    lacking: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        flashinfer, "FLASHINFER_INDEX", layout.simple_index(lacking.scene.host, SMALL)
    )
    lacking.cured(("flashinfer-cubin-skew", ["flashinfer-cubin==0.6.4"]))


def test_kernels_that_vllm_fetches(lacking: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flashinfer, "_DOWNLOADS_FROM", Version("0.16.dev0"))
    fetched = ["flashinfer-cubin removed", "vllm download-kernels"]
    lacking.cured(("flashinfer-cubin-skew", fetched))
    assert on_host.exists(lacking.scene.host, f"{CACHE}/flashinfer/cubins/decode.cubin")


def test_kernels_that_are_built_where_they_can_be(lacking: Patient) -> None:
    for program in ("nvcc", "ninja"):
        on_host.write(lacking.scene.host, f"/usr/local/bin/{program}", "#!/bin/sh\n")
        ssh.run(lacking.scene.host, "chmod", "755", f"/usr/local/bin/{program}")
    lacking.cured(("flashinfer-cubin-skew", ["flashinfer-cubin removed"]))
    ssh.run(lacking.scene.host, "rm", "/usr/local/bin/nvcc", "/usr/local/bin/ninja")


def test_numpy_and_three_drop_ins(ill: Patient) -> None:
    ill.breaks(ill.installing("numpy==2.4.0"))
    ill.drop_in("20-limits.conf", "[Service]\nLimitNOFILE=1024\n")
    ill.needs("numpy", "no-symm-mem", "open-files", "time-to-get-ready")
    more_time = ["Environment=VLLM_ENGINE_READY_TIMEOUT_S=3600", "TimeoutStartSec=3900"]
    record = ill.cured(
        ("numba-numpy", ["numpy==2.2.6"]),
        ("symm-mem-rendezvous", ["Environment=VLLM_ALLREDUCE_USE_SYMM_MEM=0"]),
        ("too-many-open-files", ["LimitNOFILE=65536"]),
        ("engine-not-ready-in-time", more_time),
    )
    assert len(drop_ins(ill)) == 3
    assert all(record["id"] in on_host.read(ill.scene.host, path) for path in drop_ins(ill))


def test_cutlass_ninja_a_broken_build_and_a_left_over_on_the_gpu(ill: Patient) -> None:
    host, built = ill.scene.host, f"{CACHE}/torch_extensions/py312_cu124/xgrammar"
    ssh.run(host, "install", "-m", "755", "/bin/true", f"{SMALL.environment}/bin/ninja")
    ssh.run(host, "runuser", "-u", SMALL.user, "--", "mkdir", "-p", built)
    ill.breaks(ill.installing("nvidia-cutlass-dsl==4.5.0"), ill.leaving_over(SLEEPS))
    ill.needs("alone-on-gpu", "cutlass", "ninja", "no-broken-build")
    ill.cured(
        ("orphan-holds-gpu", [ENDED]),
        ("cutlass-dsl", ["nvidia-cutlass-dsl==4.8.1"]),
        ("ninja-not-on-path", [f"Environment=PATH={SMALL.environment}/bin:{PATH}"]),
        ("extension-half-built", [f"{built} set aside"]),
    )
    assert not on_host.exists(host, built)


def test_a_start_that_systemd_refuses_and_torch(ill: Patient) -> None:
    version = SMALL.nightly.version
    ill.drop_in("20-limit.conf", "[Unit]\nStartLimitBurst=1\n")
    story.set_failure(ill.scene.host, "exit0", "import", version=version, starts=1)
    ill.breaks(ill.installing("torch==2.8.0"))
    ill.needs("torch")
    ill.cured(("start-limit-hit", ["started again"]), ("torch-abi", ["torch==2.9.1"]))


def test_a_left_over_on_the_port_and_transformers(ill: Patient) -> None:
    ill.breaks(ill.installing("transformers==5.0.0"), ill.leaving_over(LISTENS, BOTH_LISTEN))
    ill.needs("transformers")
    ill.cured(
        ("left-over-on-port", [ENDED]),
        ("transformers-name-taken", ["transformers==4.57.6"]),
    )
