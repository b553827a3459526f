"""`redeploy serve` as a process of its own, as an operator runs it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.integration.polling import until
from tests.integration.prefect_api import PrefectApi

REDEPLOY = Path(sys.prefix, "bin", "redeploy")
# A killed pytest leaves no server behind; one that a shell started in the background ignores
# SIGINT, which a process that a person starts does not.
_AS_A_PERSON = ("setpriv", "--pdeathsig", "TERM", "--", "env", "--default-signal=INT")
_UP_SECONDS = 120
_DOWN_SECONDS = 60


@dataclass(frozen=True)
class Serving:
    """A running `redeploy serve`."""

    url: str
    home: Path
    process: subprocess.Popen[bytes]
    api: PrefectApi
    output: Path

    def child_of(self, run: str) -> int | None:
        """Return the process that runs a flow run: our server's child with that run's id."""
        mark = f"PREFECT__FLOW_RUN_ID={run}".encode()
        with suppress(OSError):
            for pid in _children(self.process.pid):
                with suppress(OSError):
                    if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                        return pid
        return None

    def kill(self, run: str) -> None:
        """End the process of a flow run as a crash would."""
        self._send(run, signal.SIGKILL)

    def freeze(self, run: str) -> None:
        """Stop the process of a flow run where it is; it can only be killed then."""
        self._send(run, signal.SIGSTOP)

    def _send(self, run: str, number: signal.Signals) -> None:
        os.kill(until(lambda: self.child_of(run), f"the process of run {run}", 10), number)


@contextmanager
def serving(config: Path, folder: Path, **variables: str) -> Iterator[Serving]:
    """Run `redeploy serve` with a Prefect home of its own while the block runs."""
    port = free_port()
    home, output = folder / "prefect", folder / "serve.log"
    argv = [*_AS_A_PERSON, str(REDEPLOY), "serve", "--config", str(config), "--port", str(port)]
    with output.open("wb") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(home, **variables),
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    with PrefectApi(url) as api:
        server = Serving(url, home, process, api, output)
        try:
            until(lambda: _ready(server), "redeploy serve is up", _UP_SECONDS, pause=0.2)
            yield server
        finally:
            _end(server)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return a child's environment with a Prefect home of its own that polls every second."""
    return {
        **os.environ,
        "PREFECT_HOME": str(home),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "PYTHONFAULTHANDLER": "1",
        "VLLM_REDEPLOY_RESUMPTIONS": "0",  # whoever kills a run decides what becomes of it
        **more,
    }


def free_port() -> int:
    """Return a port of loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ready(server: Serving) -> bool:
    if server.process.poll() is not None:
        raise RuntimeError(f"redeploy serve has ended:\n{server.output.read_text()}")
    with suppress(httpx.TransportError, AssertionError):
        return bool(server.api.deployment("redeploy/nightly"))
    return False


def _end(server: Serving) -> None:
    server.process.send_signal(signal.SIGINT)
    try:
        server.process.wait(_DOWN_SECONDS)
    except subprocess.TimeoutExpired as error:
        server.process.send_signal(signal.SIGABRT)  # faulthandler says where it hangs
        server.process.wait()
        raise RuntimeError(server.output.read_text()[-20_000:]) from error


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found
