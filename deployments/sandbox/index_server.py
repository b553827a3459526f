"""Serves the wheel indexes on the bridge: a plain static file server in a process of its own.

All checkouts on this machine share it. Whoever started it, it is left alone while it serves what
is asked for.
"""

from __future__ import annotations

import http.client
import os
import signal
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


def url(digest: str) -> str:
    """Return where the index of that digest is served."""
    return f"{URL}/{digest}".rstrip("/")


def start(folder: Path, digest: str) -> None:
    """Serve the folder of all indexes on the bridge, unless one of them is being served already.

    Raises:
        SandboxError: it is not served.
    """
    network.raise_bridge()
    if serves(digest):
        return
    stop()
    with _log().open("ab") as log:
        argv = [sys.executable, str(SERVER), network.GATEWAY, str(PORT), str(folder)]
        server = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    _pid_file().write_text(f"{server.pid} {_start_time(server.pid)}")
    _wait_until_served(digest)


def serves(digest: str) -> bool:
    """Say whether an index is being served; a busy server is given its time."""
    connection = http.client.HTTPConnection(network.GATEWAY, PORT, timeout=20)
    try:
        connection.request("HEAD", f"/{digest}/simple/")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


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
    pid, started = _recorded()
    return int(pid) if pid and _start_time(int(pid)) == started else None


def _recorded() -> tuple[str, str]:
    """Return the server's process and when that started."""
    try:
        pid, started, *_ = _pid_file().read_text().split()  # older versions wrote more
    except (OSError, ValueError):
        return "", ""
    return pid, started


def _wait_until_served(digest: str) -> None:
    for _ in range(100):
        if serves(digest):
            return
        time.sleep(0.05)
    raise SandboxError(f"The wheel index at {url(digest)} does not answer.", f"See {_log()}.")


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
