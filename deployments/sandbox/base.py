"""The base system that every host shares: built once by debootstrap, never written again.

On top of it lies a thin second layer with our settings and uv. Both are the lower layers of a
host's overlay; a change of the settings makes a new thin layer and leaves the base alone.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

from deployments.sandbox import preflight, state
from deployments.sandbox.apt import Source, machine_source
from deployments.sandbox.command import run
from deployments.sandbox.errors import SandboxError

PACKAGES = (
    "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,openssh-server,python3,"
    "python3-venv,ca-certificates,iproute2,sudo"
)
NOISE = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-pstore.service",
    "tmp.mount",
)
# What lies in /tmp must outlive a reboot: the debug files of a story are there.
SETTINGS = {
    "etc/tmpfiles.d/tmp.conf": "q /tmp 1777 root root -\n",
    "etc/ssh/sshd_config.d/sandbox.conf": "UseDNS no\nHostKey /etc/ssh/ssh_host_ed25519_key\n",
    "etc/machine-id": "",
}


def layers(say: state.Say) -> list[Path]:
    """Return the lower layers of a host, uppermost first; build what is not there."""
    base = _base(machine_source(), say)
    return [_settings(), base]


def _base(source: Source, say: state.Say) -> Path:
    digest = hashlib.sha256(f"{source}{PACKAGES}".encode()).hexdigest()[:12]
    folder = state.root() / "base" / digest
    rootfs = folder / "rootfs"
    if (folder / "complete").exists():
        return rootfs
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    say(f"building the base system ({source.suite}, once, about 90 s and 280 MB)")
    began = time.monotonic()
    log = run(
        *("debootstrap", "--variant=minbase", f"--include={PACKAGES}"),
        *(f"--components={','.join(source.components)}", source.suite, rootfs, source.mirror),
        check=False,
    )
    (folder / "log").write_text(log)
    if not (rootfs / "usr/sbin/sshd").exists() or (rootfs / "debootstrap").exists():
        raise SandboxError(
            f"debootstrap did not finish; its log is {folder / 'log'}.",
            f"Check that {source.mirror} can be reached, then run this again.",
        )
    _strip(rootfs)
    (folder / "complete").touch()
    say(f"base system built in {time.monotonic() - began:.0f} s")
    return rootfs


def _strip(rootfs: Path) -> None:
    for pattern in (
        "etc/ssh/ssh_host_*",
        "var/cache/apt/archives/*.deb",
        "var/lib/dbus/machine-id",
    ):
        for path in rootfs.glob(pattern):
            path.unlink()


def _settings() -> Path:
    uv = preflight.find_uv()
    if uv is None:
        raise SandboxError("uv is not installed here.", "Install it: pip install uv.")
    digest = hashlib.sha256(f"{SETTINGS}{NOISE}".encode() + uv.read_bytes()).hexdigest()[:12]
    layer = state.root() / "layers" / digest
    if layer.exists():
        return layer
    building = layer.with_suffix(".new")
    shutil.rmtree(building, ignore_errors=True)
    for name, text in SETTINGS.items():
        _write(building / name, text)
    (building / "var/log/journal").mkdir(parents=True)
    units = building / "etc/systemd/system"
    units.mkdir(parents=True)
    for unit in NOISE:
        (units / unit).symlink_to("/dev/null")
    (building / "usr/local/bin").mkdir(parents=True)
    shutil.copy(uv, building / "usr/local/bin/uv")
    (building / "usr/local/bin/uv").chmod(0o755)
    building.rename(layer)
    return layer


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
