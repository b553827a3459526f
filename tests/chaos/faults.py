"""What strikes a redeploy: each fault happens, and is healed where it does not heal by itself."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from deployments.sandbox import hosts, preflight
from tests.chaos.index import Index
from tests.integration import on_host
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

LONGER_THAN_EVERY_TIME_OUT_SECONDS = 20
FILLER = "filler"


@dataclass
class Site:
    """What a fault can strike."""

    scene: Scene
    server: Serving
    index: Index
    run: str


def _flow_killed(site: Site) -> None:
    site.server.kill(site.run)


def _worker_killed(site: Site) -> None:
    flow = site.server.child_of(site.run)
    os.killpg(site.server.process.pid, signal.SIGKILL)
    site.server.process.wait()
    if flow is not None:
        _send(flow, signal.SIGKILL)


def _link_cut(site: Site) -> None:
    hosts.cut(site.scene.host.name)
    time.sleep(LONGER_THAN_EVERY_TIME_OUT_SECONDS)
    hosts.heal(site.scene.host.name)


def _power_cut(site: Site) -> None:
    """Take away what was not synced, of the environment and of what the host remembers."""
    hosts.kill(site.scene.host.name)
    site.scene.host = hosts.up(site.scene.host.name)


def _reboot(site: Site) -> None:
    site.scene.host = hosts.reboot(site.scene.host.name)


def _frozen(site: Site) -> None:
    frozen: set[int] = set()
    while more := _processes(site.scene.host.name) - frozen:  # those that were born meanwhile
        for pid in more:
            _send(pid, signal.SIGSTOP)
        frozen |= more
    time.sleep(LONGER_THAN_EVERY_TIME_OUT_SECONDS)
    for pid in frozen:
        _send(pid, signal.SIGCONT)


def _disk_full(site: Site) -> None:
    on_host.fill(site.scene.host, f"{site.scene.story.data_path}/{FILLER}")
    on_host.fill(site.scene.host, f"{on_host.REMEMBERED}/{FILLER}")


def _index_gone(site: Site) -> None:
    site.index.gone = True


def _corrupt_wheel(site: Site) -> None:
    site.index.corrupt = True


STRIKE: dict[str, Callable[[Site], None]] = {
    "flow-killed": _flow_killed,
    "worker-killed": _worker_killed,
    "link-cut": _link_cut,
    "power-cut": _power_cut,
    "reboot": _reboot,
    "frozen": _frozen,
    "disk-full": _disk_full,
    "index-gone": _index_gone,
    "corrupt-wheel": _corrupt_wheel,
}


def heal(site: Site) -> None:
    """Take away what does not go by itself; the service had to come through it before."""
    site.index.gone = site.index.corrupt = False
    for folder in (site.scene.story.data_path, on_host.REMEMBERED):
        on_host.remove(site.scene.host, f"{folder}/{FILLER}")


def _processes(name: str) -> set[int]:
    found: set[int] = set()
    for root in preflight.cgroup_roots():
        for procs in (root / f"redeploy-{name}/payload").rglob("cgroup.procs"):
            with suppress(OSError):
                found.update(map(int, procs.read_text().split()))
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
