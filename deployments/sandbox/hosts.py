"""Boots, stops, breaks and removes real hosts: systemd-nspawn over one shared base system.

A host's folder holds its overlay (`upper`), the image of the file system that its environment
lies on (`data.img`), its console and how to reach it. All functions take the host's name and
can be called from several processes at once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deployments.sandbox import base, data_disk, index_server, network, preflight, ssh, state
from deployments.sandbox.command import run
from deployments.sandbox.errors import SandboxError
from deployments.sandbox.ssh import SandboxHost

DATA_BYTES = 600_000_000
SHUT_DOWN = signal.SIGRTMIN + 4  # systemd's own signal for a clean power-off
BOOT_SECONDS = 30
CHECKOUT = str(Path(__file__).parents[2])
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class HostState:
    """A host as it is now, and which checkout of this code made it with which wheel index."""

    name: str
    address: str
    state: str
    pid: int | None
    checkout: str
    index: str

    @property
    def is_ours(self) -> bool:
        """Whether this checkout made it."""
        return self.checkout == CHECKOUT


def up(
    name: str, data_path: str = "/opt/vllm", say: state.Say = state.say_on_stderr
) -> SandboxHost:
    """Boot a host, making it first where it does not exist, and wait until it answers SSH.

    Args:
        name: a short name: a letter, then up to nine letters and digits.
        data_path: where the real file system is mounted in a host that is made now.
        say: told what takes long.

    Raises:
        SandboxError: this machine cannot boot a host, or the host does not answer.
    """
    state.host_folder(name)  # refuses what is no name
    preflight.require()
    with state.locked("hosts"):
        lower = base.layers(say)
        if not (state.host_folder(name) / "host.json").exists():
            create(name, data_path)
        if leader(name) is None:
            _reap(name)
            _boot(name, lower)
    host = get(name)
    _wait_for_ssh(host)
    return host


def create(name: str, data_path: str, template: Path | None = None, index: str = "") -> None:
    """Make a host's folder, empty or from a template's `upper` and `data.img`.

    Args:
        name: the host's.
        data_path: where the real file system is mounted.
        template: what to copy.
        index: the digest of the wheel index that it is to use.
    """
    folder = state.host_folder(name)
    taken = {one.address for one in list_hosts()}
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("work", "root", "data"):
        (folder / part).mkdir(parents=True)
    if template:
        run("cp", "--archive", "--sparse=always", template / "upper", template / "data.img", folder)
    else:
        (folder / "upper").mkdir()
        _make_image(folder / "data.img")
    upper = folder / "upper"
    (upper / "etc/ssh").mkdir(parents=True, exist_ok=True)
    (upper / "etc/hostname").write_text(f"{name}\n")
    address = network.free_address(taken)
    ssh.write_keys(folder, address)
    document = {
        "name": name,
        "address": address,
        "data_path": data_path,
        "checkout": CHECKOUT,
        "index": index,
    }
    (folder / "host.json").write_text(json.dumps(document))


def get(name: str) -> SandboxHost:
    """Return how to reach a host.

    Raises:
        SandboxError: there is no such host.
    """
    folder = state.host_folder(name)
    if not (folder / "host.json").exists():
        raise SandboxError(f"There is no host {name}.", f"Make it: redeploy sandbox up {name}.")
    made = json.loads((folder / "host.json").read_text())
    index_url = index_server.url(made.get("index", ""))
    return SandboxHost(name, made["address"], ssh.key_file(), folder / "known_hosts", index_url)


def list_hosts() -> list[HostState]:
    """Return every host and whether it is up, down or cut off."""
    found = []
    for document in sorted(state.root().glob("hosts/*/host.json")):
        name = document.parent.name
        pid = leader(name)
        word = "down" if pid is None else "cut" if network.is_cut(name) else "up"
        made = {"checkout": "", "index": ""} | json.loads(document.read_text())
        found.append(HostState(name, made["address"], word, pid, made["checkout"], made["index"]))
    return found


def down(name: str) -> None:
    """Shut a host down cleanly, after 20 s by force; its disk stays."""
    get(name)
    with state.locked("hosts"):
        _shut_down(name)


def remove(name: str) -> None:
    """End a host and remove all that is its own; with the last host go bridge and index."""
    with state.locked("hosts"):
        _shut_down(name, patience=3)  # nothing on its disks is kept
        _wait_for_loop(name)
        shutil.rmtree(state.host_folder(name), ignore_errors=True)
        if not list_hosts():
            index_server.stop()
            network.remove_bridge()


def kill(name: str) -> None:
    """End a host at once, as a power cut would.

    Its environment's file system loses what was not synced; all else that it wrote stays, since
    that lies on this machine's own.
    """
    pid = leader(name)
    if pid is None:
        raise SandboxError(f"{name} is not up.", f"Boot it: redeploy sandbox up {name}.")
    folder = state.host_folder(name)
    keeper = int((folder / "pid").read_text())
    with state.locked("hosts"):
        with data_disk.losing_what_is_not_synced(keeper, folder / "data"):
            os.kill(pid, signal.SIGKILL)
            _wait_for_end(name, 5)
        _reap(name)
        _wait_for_loop(name)  # a boot would find the file system that was ended


def reboot(name: str) -> SandboxHost:
    """Reboot a host from inside and wait until it answers again."""
    host = get(name)
    before = ssh.output(host, "cat", BOOT_ID)
    ssh.run(host, "systemctl", "reboot", check=False)
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        with suppress(SandboxError):
            if ssh.output(host, "cat", BOOT_ID) != before:
                return host
        time.sleep(0.1)
    raise SandboxError(f"{name} did not come back within {BOOT_SECONDS} s.", _where_to_look(name))


cut = network.cut
heal = network.heal


def leader(name: str) -> int | None:
    """Return the host's own PID 1, as this machine numbers it."""
    for group in preflight.cgroup_roots():
        procs = group / f"redeploy-{name}/payload/init.scope/cgroup.procs"
        with suppress(OSError):
            if found := procs.read_text().split():
                return int(found[0])
    return None


def _boot(name: str, lower: list[Path]) -> None:
    folder = state.host_folder(name)
    document = json.loads((folder / "host.json").read_text())
    network.raise_bridge()
    netns = network.plug_in(name, document["address"])
    script = Path(__file__).with_name("boot.sh")
    argv = [
        *("unshare", "--mount", "bash", script, name, folder, ":".join(map(str, lower))),
        *(document["data_path"], netns, *preflight.cgroup_roots()),
    ]
    with (folder / "console.log").open("ab") as console:
        keeper = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
        )
    (folder / "pid").write_text(str(keeper.pid))


def _wait_for_ssh(host: SandboxHost) -> None:
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        if ssh.answers(host):
            return
        time.sleep(0.1)
    raise SandboxError(
        f"{host.name} does not answer SSH after {BOOT_SECONDS} s.", _where_to_look(host.name)
    )


def _where_to_look(name: str) -> str:
    folder = state.host_folder(name)
    return f"See {folder}/console.log and `journalctl -D {folder}/upper/var/log/journal`."


def _shut_down(name: str, patience: float = 20) -> None:
    pid = leader(name)
    if pid is not None:
        os.kill(pid, SHUT_DOWN)
        if not _wait_for_end(name, patience):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _wait_for_end(name, 5)
    _reap(name)


def _wait_for_end(name: str, seconds: float) -> bool:
    """Wait until the host's keeper has ended; reap it where it is our own child."""
    recorded = state.host_folder(name) / "pid"
    if not recorded.exists():
        return True
    pid = int(recorded.read_text())
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if _has_ended(pid):
            return True
        time.sleep(0.05)
    return False


def _has_ended(pid: int) -> bool:
    """Say whether a process is gone; one that its parent has not buried yet is."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def _wait_for_loop(name: str) -> None:
    image = state.host_folder(name) / "data.img"
    for _ in range(100):
        if not run("losetup", "--associated", image, check=False).strip():
            return
        time.sleep(0.05)


def _reap(name: str) -> None:
    """Remove what a dead host left: cable, network namespace, cgroups."""
    network.unplug(name)
    for group in preflight.cgroup_roots():
        _remove_cgroup(group / f"redeploy-{name}")
    (state.host_folder(name) / "pid").unlink(missing_ok=True)


def _remove_cgroup(group: Path) -> None:
    for _ in range(100):
        if not group.exists():
            return
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        time.sleep(0.05)


def _make_image(image: Path) -> None:
    with image.open("wb") as handle:
        handle.truncate(DATA_BYTES)
    run("mkfs.ext4", "-q", "-F", "-L", "data", "-m", "0", image)
