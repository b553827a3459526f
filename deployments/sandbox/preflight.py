"""What this machine lacks to boot a real host, and how to get it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deployments.sandbox import state
from deployments.sandbox.command import succeeds
from deployments.sandbox.errors import SandboxError

CGROUP_ROOTS = tuple(
    Path("/sys/fs/cgroup", part) for part in ("", "unified", "systemd")
)  # a pure v2 machine has the first, a hybrid one the other two


@dataclass(frozen=True)
class Missing:
    """One thing that this machine lacks."""

    what: str
    why: str
    how: str


PROGRAMS = (
    ("systemd-nspawn", "systemd-container", "boots the host"),
    ("debootstrap", "debootstrap", "builds the host's Debian or Ubuntu"),
    ("ip", "iproute2", "gives the host a network of its own"),
    ("ssh", "openssh-client", "reaches the host"),
    ("ssh-keygen", "openssh-client", "makes the host's keys"),
    ("unshare", "util-linux", "keeps the host's mounts apart from this machine's"),
    ("mkfs.ext4", "e2fsprogs", "puts the environment on a real file system"),
)


def apt_install(*packages: str) -> str:
    """Return the command that installs packages here."""
    return "apt-get install --yes --no-install-recommends " + " ".join(packages)


def cgroup_roots() -> list[Path]:
    """Return the cgroup hierarchies in which a host gets a group of its own."""
    return [path for path in CGROUP_ROOTS if (path / "cgroup.procs").exists()]


def missing() -> list[Missing]:
    """Return what this machine lacks to boot a host; empty when it can.

    Kernel features are tried rather than guessed: a container can have all the programs and
    still be forbidden to mount.
    """
    if sys.platform != "linux":
        return [Missing("Linux", "hosts are booted by systemd-nspawn", "use a Linux machine or VM")]
    if os.geteuid() != 0:
        return [Missing("root", "only root can boot a host", "run the same command with sudo")]
    lacking = [
        Missing(program, why, apt_install(package))
        for program, package, why in PROGRAMS
        if shutil.which(program) is None
    ]
    if find_uv() is None:
        lacking.append(Missing("uv", "installs packages on the host", "pip install uv"))
    return lacking or [absent for tried, absent in _KERNEL if not tried()]


def require() -> None:
    """Refuse, with every reason, where a host cannot be booted.

    Raises:
        SandboxError: something is missing.
    """
    if lacking := missing():
        raise SandboxError(
            "This machine cannot boot a sandbox host: "
            + "; ".join(f"{one.what} is missing ({one.why})" for one in lacking)
            + ".",
            "To get it: " + "; ".join(dict.fromkeys(one.how for one in lacking)) + ".",
        )


def find_uv() -> Path | None:
    """Return the uv of this Python's environment, else the one on the path."""
    beside = Path(sys.prefix, "bin", "uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    return Path(found) if found else None


def _overlay() -> bool:
    state.root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=state.root()) as folder:
        lower, upper, work, merged = (Path(folder, part) for part in "luwm")
        for path in (lower, upper, work, merged):
            path.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        return succeeds(
            ("unshare", "--mount", "mount", "-t", "overlay", "-o", options, "overlay", merged)
        )


def _netns() -> bool:
    return succeeds(("unshare", "--net", "true"))


def _loop() -> bool:
    return succeeds(("losetup", "--find"))


def _cgroup() -> bool:
    probes = [path / f"redeploy-probe-{os.getpid()}" for path in cgroup_roots()]
    try:
        for probe in probes:
            probe.mkdir()
            probe.rmdir()
    except OSError:
        return False
    return bool(probes)


_PRIVILEGED = "use a VM, or a container that may mount (--privileged)"
_KERNEL: tuple[tuple[Callable[[], bool], Missing], ...] = (
    (_overlay, Missing("overlay mounts", "hosts share one base system", _PRIVILEGED)),
    (_netns, Missing("network namespaces", "a host has its own network", _PRIVILEGED)),
    (_loop, Missing("loop devices", "the environment lies on a real file system", _PRIVILEGED)),
    (_cgroup, Missing("writable cgroups", "systemd in the host needs its own", _PRIVILEGED)),
)
