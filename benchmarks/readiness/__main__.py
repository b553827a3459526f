"""Over loads of 1 to 60 s: how long after the bare event is it known here, and at what cost?

Each load is run twice on a real sandbox host, side by side with what it is measured against: once
until it serves, against a prober beside the host that asks every 10 ms for a good answer; once
into a crash at the end of the load, against systemd's own line about it. Writes a table.

    python -m benchmarks.readiness [SECONDS ...]
"""

import json
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Any

import httpx
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from benchmarks.readiness.cost import Cost
from blocks.host import Host
from blocks.supervisor_client import Supervisor
from deployments.sandbox import hosts, ssh, story
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import STORIES
from tasks.readiness import Wanted, wait_until_ready

LOADS = (1.0, 5.0, 15.0, 30.0, 60.0)
NAME = "bench"
STORY = STORIES["small"]
KEY = STORY.api_key or ""
RESULTS = Path(__file__).with_name("results.json")
_QUESTION = {"model": STORY.served_model, "prompt": "Say something.", "max_tokens": 4}
_PROBE_SECONDS = 0.01
_MOST_CORES = 0.01


@dataclass(frozen=True)
class Measured:
    """One load: the delays after the bare events, how long was watched, and what that took."""

    load: float
    crash_known_after: float
    answer_known_after: float
    watched_seconds: float
    cpu_seconds: float

    @property
    def cores(self) -> float:
        """The share of a core, the supervisor's own start included."""
        return self.cpu_seconds / self.watched_seconds

    @property
    def allowed(self) -> float:
        """The longest delay that is good enough: 1 s, or 2 % of the load, and at most 2 s."""
        return min(2.0, max(1.0, 0.02 * self.load))


class Bench:
    """A service on a sandbox host that is started over and over."""

    def __init__(self, sandbox: SandboxHost) -> None:
        self.sandbox = sandbox
        self.host = Host(
            address=sandbox.address,
            key_file=str(sandbox.key_file),
            known_hosts=str(sandbox.known_hosts),
        )
        self.supervisor = Supervisor(self.host)
        self.supervisor.install()
        self.id = str(uuid.uuid4())

    def measure(self, load: float) -> Measured:
        """Run one load into serving and one into a crash."""
        name = f"/etc/vllm/{STORY.unit.removesuffix('.service')}.env"
        set_load = f"s/^VLLM_STANDIN_LOAD_SECONDS=.*/VLLM_STANDIN_LOAD_SECONDS={load:g}/"
        ssh.run(self.sandbox, "sed", "-i", set_load, name)
        answer, cost = self._until_it_serves(f"serves-{load:g}")
        crash = self._until_it_crashes(f"crashes-{load:g}")
        return Measured(load, crash, answer, cost.seconds, cost.cpu_seconds)

    def _until_it_serves(self, run: str) -> tuple[float, Cost]:
        launched = self._start(run)
        first: list[float] = []
        prober = threading.Thread(target=_first_answer, args=(self.sandbox, first))
        prober.start()
        with Cost(self.sandbox) as cost:
            watched = self._do(run, "watch", _watching(launched))
            wanted = Wanted(STORY.old.version, STORY.served_model, api_key=SecretStr(KEY))
            with self.host.tunnel(STORY.port, watched["address"]) as port:
                wait_until_ready(f"http://127.0.0.1:{port}", wanted, link=lambda: None)
            known = time.time()
        prober.join()
        return known - first[0], cost

    def _until_it_crashes(self, run: str) -> float:
        story.set_failure(self.sandbox, "crash", "listening")
        try:
            launched = self._start(run)
            self._do(run, "watch", _watching(launched))
            known = time.time()
        finally:
            story.clear_failure(self.sandbox)
        return known - _died_at(self.sandbox, launched["invocation"])

    def _start(self, run: str) -> dict[str, Any]:
        self._lock()
        self._do(run, "stop", {"unit": STORY.unit, "timeout_seconds": 60})
        return self._do(run, "start", {"unit": STORY.unit})

    def _lock(self) -> None:
        lock = {"who": "benchmark", "why": "readiness", "lease_seconds": 600}
        self.supervisor.call("lock", {"environment": STORY.environment, "holder": self.id, **lock})

    def _do(self, run: str, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        name = f"{self.id}/{run.replace('.', '-')}/{verb}"
        outcome = self.supervisor.ensure(
            name,
            verb,
            arguments,
            holder=self.id,
            environment=STORY.environment,
            on_progress=lambda _: None,  # as the flow does it, which shows them
        )
        return outcome.result or {}


def _watching(launched: dict[str, Any]) -> dict[str, Any]:
    return {
        "unit": STORY.unit,
        "invocation": launched["invocation"],
        "started": launched["started"],
        "port": STORY.port,
        "deadline_seconds": 600,
    }


def _first_answer(sandbox: SandboxHost, found: list[float]) -> None:
    """Ask the service on the bridge, with nothing in between, until it answers well."""
    url, key = f"http://{sandbox.address}:{STORY.port}", {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=url, headers=key, trust_env=False) as client:
        while not found:
            try:
                answer = client.post("/v1/completions", json=_QUESTION, timeout=1)
            except httpx.TransportError:
                time.sleep(_PROBE_SECONDS)
                continue
            if answer.status_code == 200:
                found.append(time.time())


def _died_at(sandbox: SandboxHost, invocation: str) -> float:
    """Return when systemd saw the main process of an invocation end."""
    about = ("journalctl", "--output=json", "--no-pager", "_PID=1", f"INVOCATION_ID={invocation}")
    lines = [json.loads(line) for line in ssh.output(sandbox, *about).splitlines()]
    ends = [line for line in lines if "Main process exited" in str(line.get("MESSAGE"))]
    return int(ends[0]["__REALTIME_TIMESTAMP"]) / 1e6


def watching(measured: Sequence[Measured]) -> float:
    """Return the share of a core that each further second of watching takes, over all loads."""
    seconds = [one.watched_seconds for one in measured]
    return linear_regression(seconds, [one.cpu_seconds for one in measured]).slope


def main(loads: tuple[float, ...]) -> int:
    """Measure, print and keep the figures; return 1 if one of them is not good enough."""
    sandbox = story.prepare(NAME, STORY.key)
    try:
        bench = Bench(sandbox)
        measured = [bench.measure(load) for load in loads]
        bench.host.close()
    finally:
        hosts.remove(NAME)
    table = Table(
        "load, s", "crash known after, s", "answer known after, s", "allowed, s", "CPU, s", "cores"
    )
    for one in measured:
        delays = (one.crash_known_after, one.answer_known_after, one.allowed)
        shown = [f"{delay:.2f}" for delay in delays]
        table.add_row(f"{one.load:g}", *shown, f"{one.cpu_seconds:.2f}", f"{one.cores:.4f}")
    Console().print(table)
    share = watching(measured)
    Console().print(f"Each further second of watching takes {share:.2%} of a core.")
    RESULTS.write_text(json.dumps([vars(one) for one in measured], indent=2) + "\n")
    late = [max(one.crash_known_after, one.answer_known_after) > one.allowed for one in measured]
    return int(any(late) or share > _MOST_CORES)


if __name__ == "__main__":
    raise SystemExit(main(tuple(map(float, sys.argv[1:])) or LOADS))
