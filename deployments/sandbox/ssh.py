"""Reaches a sandbox host over its real sshd, with keys made for it alone."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deployments.sandbox import command, state
from deployments.sandbox.errors import SandboxError


@dataclass(frozen=True)
class SandboxHost:
    """How to reach a host, and where it finds the wheels of its story."""

    name: str
    address: str
    key_file: Path
    known_hosts: Path
    index_url: str


def key_file() -> Path:
    """Return the private key that opens every sandbox host; make it where it is not there."""
    key = state.root() / "key"
    if not key.exists():
        command.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f", key)
    return key


def write_keys(folder: Path, address: str) -> None:
    """Give a new host its own host key, know it by it, and let our key in as root."""
    upper = folder / "upper"
    host_key = upper / "etc/ssh/ssh_host_ed25519_key"
    host_key.unlink(missing_ok=True)
    command.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "host", "-f", host_key)
    public = host_key.with_suffix(".pub").read_text().split()
    (folder / "known_hosts").write_text(f"{address} {public[0]} {public[1]}\n")
    door = upper / "root/.ssh"
    door.mkdir(parents=True, exist_ok=True)
    door.parent.chmod(0o700)
    door.chmod(0o700)
    (door / "authorized_keys").write_text(key_file().with_suffix(".pub").read_text())


def argv(host: SandboxHost, user: str = "root") -> list[str]:
    """Return the ssh command for a host, without what to run there."""
    options = {
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": str(host.known_hosts),
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": "3",
        "LogLevel": "ERROR",
    }
    flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return ["ssh", "-F", "none", "-i", str(host.key_file), *flags, f"{user}@{host.address}"]


def run(
    host: SandboxHost,
    *words: str,
    check: bool = True,
    stdin: bytes = b"",
    seconds: float = 300,
    user: str = "root",
) -> subprocess.CompletedProcess[bytes]:
    """Run a program on a host.

    Raises:
        SandboxError: it ended with a status other than 0, and `check` was asked for.
    """
    done = subprocess.run(
        [*argv(host, user), shlex.join(words)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=seconds,
    )
    if check and done.returncode != 0:
        raise SandboxError(
            f"On {host.name}, `{shlex.join(words)}` ended with status {done.returncode}:"
            f" {(done.stderr + done.stdout).decode(errors='replace').strip()[-2000:]}",
            f"The host is left as it is; remove it with `redeploy sandbox down {host.name}`.",
        )
    return done


def output(host: SandboxHost, *words: str) -> str:
    """Run a program on a host and return what it printed."""
    return run(host, *words).stdout.decode(errors="replace")


def answers(host: SandboxHost) -> bool:
    """Say whether a host lets us in."""
    return command.succeeds([*argv(host), "true"])
