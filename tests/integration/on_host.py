"""What is true on a host, read over ssh with the host's own programs and none of our code."""

import hashlib
import json
import os
import queue
import shlex
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from deployments.sandbox import ssh
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import Story
from tests.integration.polling import until

REMEMBERED = "/var/lib/vllm-redeploy"

_PACKAGES = """
import importlib.metadata as m, json, re
print(json.dumps({re.sub('[-_.]+', '-', d.metadata['Name']).lower(): d.version
                  for d in m.distributions()}))
"""
_DIFFERING = """
import base64, hashlib, importlib.metadata as m, json
def differs(file):
    path = file.locate()
    if not path.exists():
        return True
    found = hashlib.sha256(path.read_bytes()).digest()
    return file.hash and base64.urlsafe_b64encode(found).rstrip(b'=').decode() != file.hash.value
print(json.dumps([str(f) for d in m.distributions() for f in d.files or () if differs(f)]))
"""


class Logged(BaseModel):
    """One line of the supervisor's operation log."""

    model_config = ConfigDict(extra="allow")

    time: float
    event: str
    operation: str
    verb: str
    holder: str
    seconds: float | None = None
    error: Any = None

    @property
    def step(self) -> str:
        """The operation's name without the redeploy's id."""
        return self.operation.partition("/")[2]


class Entry(BaseModel):
    """One journal entry: when, from which program, which invocation of the unit, and its text."""

    time: float
    identifier: str
    invocation: str
    message: str


def packages(host: SandboxHost, environment: str) -> dict[str, str]:
    """Return the installed versions by normalised name, as the environment's Python sees them."""
    found: dict[str, str] = _python(host, environment, _PACKAGES)
    return found


def differing(host: SandboxHost, environment: str) -> list[str]:
    """Return the installed files that are not as their package's RECORD says."""
    found: list[str] = _python(host, environment, _DIFFERING)
    return found


def lines_with(host: SandboxHost, folder: str, words: tuple[str, ...]) -> list[str]:
    """Return the lines below a folder that hold one of the words."""
    patterns = [part for word in words for part in ("-e", word)]
    grep = ("grep", "-rnF", "--include=*.py", *patterns, "--", folder)
    return _ssh(host, *grep, check=False).stdout.decode().splitlines()


def unit(host: SandboxHost, name: str) -> dict[str, str]:
    """Return what `systemctl show` says of a unit."""
    wanted = "ActiveState,SubState,Result,MainPID,InvocationID,NRestarts,NeedDaemonReload"
    more = "LoadState,ExecMainStartTimestamp,StateChangeTimestamp"
    shown = _text(host, "systemctl", "show", f"--property={wanted},{more}", "--", name)
    return dict(line.split("=", 1) for line in shown.splitlines())


def journal(host: SandboxHost, name: str, since: float = 0) -> list[Entry]:
    """Return the journal of a unit, systemd's own lines about it included, oldest first."""
    about = ("journalctl", "--output=json", "--all", "--no-pager", f"--since=@{since:.0f}")
    text = _text(host, *about, f"--unit={name}")
    entries = (_entry(json.loads(line)) for line in text.splitlines())
    return [entry for entry in entries if entry.time >= since]


def operations(host: SandboxHost, redeploy: str = "") -> list[Logged]:
    """Return the operation log, or the part of one redeploy."""
    text = _text(host, "sh", "-c", f"cat {REMEMBERED}/operations.jsonl 2>/dev/null || true")
    logged = [Logged.model_validate_json(line) for line in text.splitlines()]
    return [line for line in logged if line.operation.startswith(redeploy)]


class Following:
    """The operation log as it grows."""

    def __init__(self, tail: subprocess.Popen[str]) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(tail,), daemon=True).start()

    def wait_for(self, event: str, step: str, seconds: float = 60) -> Logged:
        """Return the next line with this event of the step of that name.

        Raises:
            TimeoutError: it did not come in time.
        """
        deadline = time.monotonic() + seconds
        seen: list[str] = []
        while True:
            try:
                text = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"no {event} {step} in {seconds:.0f} s, only {seen}") from None
            line = Logged.model_validate_json(text)
            if (line.event, line.step) == (event, step):
                return line
            seen.append(f"{line.event} {line.step}")

    def _read(self, tail: subprocess.Popen[str]) -> None:
        assert tail.stdout is not None
        for line in tail.stdout:
            self._lines.put(line)


@contextmanager
def following(
    host: SandboxHost, path: str = f"{REMEMBERED}/operations.jsonl"
) -> Iterator[Following]:
    """Follow the operation log from now on; what is written is seen at once."""
    how = ("--lines=0", "--follow=name", "--retry", "--sleep-interval=0.02")  # it may have to poll
    tail = ("tail", *how, path)
    argv = [*ssh.argv(host), shlex.join(tail)]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Following(process)
    finally:
        process.kill()
        process.wait()


def started(host: SandboxHost, redeploy: str) -> Counter[str]:
    """Return how often each operation of a redeploy was started."""
    log = operations(host, redeploy)
    return Counter(line.step for line in log if line.event == "started")


def answer(host: SandboxHost, operation: str) -> dict[str, Any]:
    """Return the recorded result file of an operation."""
    document: dict[str, Any] = json.loads(
        _text(host, "cat", f"{REMEMBERED}/operations/{operation}/result.json")
    )
    return document


def record(host: SandboxHost, redeploy: str) -> dict[str, Any]:
    """Return the record of a redeploy as it lies on the host."""
    document: dict[str, Any] = json.loads(
        _text(host, "cat", f"{REMEMBERED}/releases/{redeploy}.json")
    )
    return document


def locks(host: SandboxHost) -> list[str]:
    """Return the lock files that lie on the host."""
    return matching(host, f"{REMEMBERED}/locks/*.json")


def matching(host: SandboxHost, pattern: str) -> list[str]:
    """Return the paths that match a shell pattern."""
    found = _text(host, "sh", "-c", f"ls -d {pattern} 2>/dev/null || true")
    return found.splitlines()


def inodes(host: SandboxHost, *patterns: str) -> dict[str, str]:
    """Return the inodes of the paths that match shell patterns."""
    found = (path for pattern in patterns for path in matching(host, pattern))
    lines = (_text(host, "stat", "--format=%i %n", "--", *found)).splitlines()
    return {path: inode for inode, path in (line.split(" ", 1) for line in lines)}


def modes(host: SandboxHost, *paths: str) -> list[str]:
    """Return the owner and the permissions of some paths."""
    return _text(host, "stat", "--format=%U %a", "--", *paths).splitlines()


def units(host: SandboxHost, pattern: str) -> list[str]:
    """Return the units that systemd knows by a pattern, whatever their state."""
    listed = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "--", pattern)
    return [line.split()[0] for line in _text(host, *listed).splitlines()]


def processes(host: SandboxHost) -> list[str]:
    """Return the command lines of all processes."""
    return _text(host, "ps", "-eo", "args=").splitlines()


def exists(host: SandboxHost, path: str) -> bool:
    """Tell whether something lies at a path, a dangling link included."""
    return bool(matching(host, shlex.quote(path)))


def http(host: SandboxHost, url: str) -> Any:
    """Ask a service on the host's own loopback, with the host's own Python."""
    code = (
        "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"
    )
    text = _text(host, "python3", "-c", code, url).strip()
    return json.loads(text) if text else None


def restart(host: SandboxHost, name: str) -> None:
    """Restart a unit, by hand and without waiting for what comes of it."""
    _ssh(host, "systemctl", "restart", "--no-block", "--", name)


@contextmanager
def beside_the_unit(host: SandboxHost, story: Story) -> Iterator[None]:
    """Run the service's own command a second time, as its user, in no service at all."""
    name = f"beside-{story.unit.removesuffix('.service')}.scope"
    command = shlex.join(
        (
            *("systemd-run", "--scope", f"--unit={name}", f"--uid={story.user}", "--quiet"),
            *("--setenv=VLLM_STANDIN_LOAD_SECONDS=0.1", "--", f"{story.environment}/bin/vllm"),
            *("serve", story.model, "--host", story.listen, "--port", str(story.port)),
        )
    )
    _ssh(host, "sh", "-c", f"setsid {command} >/dev/null 2>&1 </dev/null &")
    try:
        until(lambda: _listeners(host, story.port) == 2, "two listen on the port", 20)
        yield
    finally:
        _ssh(host, "systemctl", "stop", "--", name)


def _listeners(host: SandboxHost, port: int) -> int:
    return len(_text(host, "ss", "-Hltn", f"sport = :{port}").splitlines())


def write(host: SandboxHost, path: str, text: str) -> None:
    """Write a file on the host."""
    _ssh(host, "install", "-D", "-m", "644", "/dev/stdin", path, stdin=text.encode())


def append(host: SandboxHost, path: str, text: str) -> None:
    """Add lines to a file on the host."""
    _ssh(host, "tee", "--append", path, stdin=text.encode())


def mount_small(host: SandboxHost, folder: str, size: str) -> None:
    """Lay a file system of a size over a folder."""
    _ssh(host, "mkdir", "-p", "-m", "700", folder)
    _ssh(host, "mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder)


def lay_on(host: SandboxHost, folder: str, elsewhere: str) -> None:
    """Have a folder lie at another place from now on, after a boot too."""
    _ssh(host, "install", "-d", "-m", "700", folder, elsewhere)
    append(host, "/etc/fstab", f"{elsewhere} {folder} none bind 0 0\n")
    _ssh(host, "mount", folder)


def unmount(host: SandboxHost, folder: str) -> None:
    """Take a file system off a folder again."""
    _ssh(host, "umount", "--lazy", folder)


def fill(host: SandboxHost, path: str) -> None:
    """Let a file take all that is left of its file system."""
    _ssh(host, "dd", "if=/dev/zero", f"of={path}", "bs=4k", "status=none", check=False)


def remove(host: SandboxHost, folder: str) -> None:
    """Remove a folder with all that is in it."""
    _ssh(host, "rm", "-rf", "--", folder)


def files_with(host: SandboxHost, word: str, *folders: str) -> list[str]:
    """Return the files below folders that hold a word."""
    grep = ("grep", "-rlF", "-e", word, "--", *folders)
    return _ssh(host, *grep, check=False).stdout.decode().splitlines()


def whole_journal(host: SandboxHost) -> str:
    """Return the journal of all units."""
    return _text(host, "journalctl", "--no-pager", "--output=export")


def read(host: SandboxHost, path: str) -> str:
    """Return a file of the host."""
    return _text(host, "cat", path)


def site_packages(environment: str) -> str:
    """Return a shell pattern of the environment's folder of packages."""
    return str(Path(environment, "lib/python3*/site-packages"))


def _ssh(
    host: SandboxHost, *words: str, check: bool = True, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a program on a host over a connection that is kept open for the next one.

    A host that was put back to its beginning has another key, and so another connection.
    """
    key = hashlib.sha256(host.known_hosts.read_bytes()).hexdigest()[:12]
    kept = Path(tempfile.gettempdir(), f"redeploy-test-{os.getpid()}-{key}")
    options = ("ControlMaster=auto", f"ControlPath={kept}", "ControlPersist=20")
    alive = ("ServerAliveInterval=5", "ServerAliveCountMax=2")
    flags = [part for option in (*options, *alive) for part in ("-o", option)]
    program, *rest = ssh.argv(host)
    done = subprocess.run(
        [program, *flags, *rest, shlex.join(words)], input=stdin, capture_output=True, check=False
    )
    said = done.stderr.decode(errors="replace")
    assert done.returncode == 0 or not check, (words, done.returncode, said)
    return done


def _text(host: SandboxHost, *words: str) -> str:
    return _ssh(host, *words).stdout.decode(errors="replace")


def _python(host: SandboxHost, environment: str, code: str) -> Any:
    python = f"{environment}/bin/python"
    return json.loads(_ssh(host, python, "-", stdin=code.encode()).stdout)


def _entry(fields: dict[str, Any]) -> Entry:
    message = fields.get("MESSAGE") or ""
    text = bytes(message).decode(errors="replace") if isinstance(message, list) else str(message)
    return Entry(
        time=int(fields["__REALTIME_TIMESTAMP"]) / 1e6,
        identifier=fields.get("SYSLOG_IDENTIFIER", ""),
        invocation=fields.get("_SYSTEMD_INVOCATION_ID") or fields.get("INVOCATION_ID", ""),
        message=text,
    )
