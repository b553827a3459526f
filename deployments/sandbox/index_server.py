"""Serves the wheel index on the bridge: a plain static file server in a process of its own."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from deployments.sandbox import network, state
from deployments.sandbox.errors import SandboxError

SERVER = Path(__file__).with_name("static_files.py")
PORT = 8418
URL = f"http://{network.GATEWAY}:{PORT}"


def start(folder: Path) -> None:
    """Serve a folder on the bridge, unless that is being done already by this very code."""
    if _running() and _recorded()[2] == _code():
        return
    stop()
    network.raise_bridge()
    with _log().open("ab") as log:
        argv = [sys.executable, str(SERVER), network.GATEWAY, str(PORT), str(folder)]
        server = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    _pid_file().write_text(f"{server.pid} {_start_time(server.pid)} {_code()}")
    _wait_until_listening()


def stop() -> None:
    """End the server that we started; no other process."""
    if pid := _running():
        os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            if _start_time(pid) is None:
                break
            time.sleep(0.02)
    _pid_file().unlink(missing_ok=True)


def _running() -> int | None:
    pid, started, _ = _recorded()
    return int(pid) if pid and _start_time(int(pid)) == started else None


def _recorded() -> tuple[str, str, str]:
    """Return the server's process, when that started, and the code it runs."""
    try:
        pid, started, code = _pid_file().read_text().split()
    except (OSError, ValueError):
        return "", "", ""
    return pid, started, code


def _code() -> str:
    return hashlib.sha256(SERVER.read_bytes()).hexdigest()[:12]


def _wait_until_listening() -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection((network.GATEWAY, PORT), timeout=1):
            return
        time.sleep(0.05)
    raise SandboxError(f"The wheel index at {URL} does not answer.", f"See {_log()}.")


def _start_time(pid: int) -> str | None:
    """Return when a process started: with its number, that names it for good."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _pid_file() -> Path:
    return state.root() / "index.pid"


def _log() -> Path:
    return state.root() / "index.log"
