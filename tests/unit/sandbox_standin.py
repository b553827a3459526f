"""The stand-in program in an environment made by real uv, as a process of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from deployments.sandbox.preflight import find_uv
from deployments.sandbox.wheels import Wheel, build
from tasks.startup.metrics import Metrics, parse

LOAD_SECONDS = 0.5


def free_port() -> int:
    """Return a port of loopback that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def install(folder: Path, *wheels: Wheel) -> Path:
    """Install wheels with real uv, offline, into a new environment."""
    uv = str(find_uv())
    files = []
    for built in map(build, wheels):
        (folder / built.filename).write_bytes(built.data)
        files.append(str(folder / built.filename))
    environment = folder / "env"
    for argv in (
        ["venv", "--quiet", str(environment)],
        ["pip", "install", "--quiet", "--no-deps", "--python", str(environment), *files],
    ):
        subprocess.run([uv, "--offline", "--no-config", *argv], check=True, capture_output=True)
    return environment


class Running:
    """A started `vllm serve`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    def get(self, path: str, key: str | None = None) -> tuple[int, bytes]:
        """Return status and body of what is read."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=headers, timeout=5)
        return answer.status_code, answer.content

    def post(self, path: str, body: Mapping[str, object], seconds: float = 5) -> httpx.Response:
        """Ask the model for something."""
        asked = {"model": "tiny", **body}
        return httpx.post(f"http://127.0.0.1:{self.port}{path}", json=asked, timeout=seconds)

    def metrics(self) -> Metrics:
        """Return the metrics as the product reads them."""
        return parse(self.get("/metrics")[1].decode())

    def wait_until_healthy(self) -> None:
        """Wait until `/health` answers 200."""
        for _ in range(200):
            with suppress(httpx.TransportError):
                if self.get("/health") == (200, b""):
                    return
            time.sleep(0.05)
        raise AssertionError(f"not healthy:\n{self.log.read_text()}")

    def children(self) -> list[str]:
        """Return the command lines of the processes it started."""
        titles = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                group = int(stat.read_text().rpartition(")")[2].split()[2])
                if group == self.process.pid != int(stat.parent.name):
                    command = (stat.parent / "cmdline").read_bytes()
                    titles.append(command.rstrip(b"\0").decode())
        return [title for title in titles if title]  # a zombie has none


@contextmanager
def serve(environment: Path, folder: Path, *options: str, **variables: str) -> Iterator[Running]:
    """Run `vllm serve` while the block runs; options come last, so they win."""
    port = int(options[options.index("--port") + 1]) if "--port" in options else free_port()
    log = folder / "log"
    argv = [
        *(str(environment / "bin/vllm"), "serve", "/models/tiny", "--host", "127.0.0.1"),
        *("--port", str(port), "--served-model-name", "tiny", *options),
    ]
    asked = {"VLLM_STANDIN_LOAD_SECONDS": str(LOAD_SECONDS), "VLLM_STANDIN_LEAVE_SECONDS": "0.3"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            argv, stdout=out, stderr=out, env=os.environ | asked | variables, process_group=0
        )
    try:
        yield Running(process, port, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
