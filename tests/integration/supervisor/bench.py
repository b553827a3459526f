"""A host's supervisor, and a redeploy's worth of operations on it."""

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from blocks.host import Host
from blocks.supervisor.launcher import unit_of
from blocks.supervisor_archive import Archive, archive
from blocks.supervisor_client import Outcome, Supervisor
from tests.integration.polling import until

NAME = f"t0p{os.getpid()}"
ROOT = Path(__file__).parents[3]
UNIT = "probe.service"
ENVIRONMENT = "/opt/vllm/probe"
UNIT_FILE = """[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/bin/python3 /opt/probe.py {mode}
Restart={restart}
RestartSec={pause}
"""


class Bench:
    """A host, its supervisor, and a redeploy's worth of operations on it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.supervisor = Supervisor(host)
        self.id = ""

    def begin(self, id_: str) -> None:
        self.id = id_
        lock = {"environment": ENVIRONMENT, "holder": id_, "who": "test", "why": "test"}
        self.supervisor.call("lock", {**lock, "lease_seconds": 60})

    def end(self) -> None:
        self.do("end", "stop", unit=UNIT, timeout_seconds=30)
        self.supervisor.call("unlock", {"environment": ENVIRONMENT, "holder": self.id})

    def do(self, name: str, verb: str, **arguments: Any) -> Outcome:
        operation = f"{self.id}/{name}"
        return self.supervisor.ensure(
            operation, verb, arguments, holder=self.id, environment=ENVIRONMENT
        )

    def launch(self, mode: str, restart: str = "no", pause: str = "100ms") -> dict[str, Any]:
        self.put_unit(mode, restart, pause)
        return self.do("start", "start", unit=UNIT).result or {}

    def put_unit(self, mode: str, restart: str = "no", pause: str = "100ms") -> None:
        text = UNIT_FILE.format(mode=mode, restart=restart, pause=pause)
        self.host.put(text.encode(), f"/etc/systemd/system/{UNIT}")

    def watch(
        self, launched: dict[str, Any], name: str = "watch", deadline: float = 8, **more: Any
    ) -> Outcome:
        return self.do(name, "watch", **self.watching(launched, deadline), **more)

    def watching(self, launched: dict[str, Any], deadline: float) -> dict[str, Any]:
        start = {key: launched[key] for key in ("invocation", "started")}
        return {"unit": UNIT, **start, "port": 8123, "deadline_seconds": deadline, "lines": 20}

    def shell(self, script: str) -> str:
        return self.host.run(["sh", "-c", script]).check().stdout.strip()

    def log(self) -> list[dict[str, Any]]:
        lines = self.shell("cat /var/lib/vllm-redeploy/operations.jsonl").splitlines()
        return [one for one in map(json.loads, lines) if one["holder"] == self.id]

    def events(self, name: str) -> list[str]:
        return [one["event"] for one in self.log() if one["operation"] == f"{self.id}/{name}"]

    def kill(self, name: str) -> None:
        """Kill an operation's process; that it was started is written before there is one."""
        unit = unit_of(f"{self.id}/{name}")
        at_work = ["systemctl", "show", "--property=SubState", "--value", unit]
        until(lambda: self.host.run(at_work).stdout.strip() == "running", f"{unit} at work", 10)
        self.host.run(["systemctl", "kill", "--signal=KILL", unit]).check()


def patient(host: Host, **more: Any) -> Host:
    return Host(**{**host.model_dump(), **more})


def another_version() -> Archive:
    """Return our own supervisor with something more in it."""
    buffer = io.BytesIO(archive().data)
    with zipfile.ZipFile(buffer, "a") as file:
        file.writestr("more.txt", "more")
    data = buffer.getvalue()
    return Archive(data, hashlib.sha256(data).hexdigest())


def start_caller(bench: Bench, name: str, arguments: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start another process that asks for an operation and waits for it."""
    code = (
        "import json, sys; from blocks.host import Host;"
        "from blocks.supervisor_client import Supervisor; given = json.loads(sys.argv[1]);"
        "Supervisor(Host(**given.pop('host'))).ensure(**given)"
    )
    given = {
        "host": bench.host.model_dump(mode="json"),
        "operation": f"{bench.id}/{name}",
        "verb": "stage" if name == "stage" else "watch",
        "arguments": arguments,
        "holder": bench.id,
        "environment": ENVIRONMENT,
    }
    return subprocess.Popen([sys.executable, "-c", code, json.dumps(given)], cwd=ROOT)
