"""For how long is a service not there: bare restart, staged and classic redeploy, side by side?

One real sandbox host, one service, a client that asks 20 times a second from outside. In every
round each of the three is done once, in alternating order. Prints a table, and the commands that
ran while the service was stopped in the last staged redeploy. After each staged redeploy the host
is told to go back, and its cable is cut: no index and no controller; timed by the host's own clock,
until it has been seen to serve and to go on.

    python -m benchmarks.downtime [--rounds N] [--load SECONDS]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from deployments.sandbox import hosts, ssh, story, toml
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import STORIES

NAME = "bench"
STORY = STORIES["small"]
RESULTS = Path(__file__).with_name("results.json")
WAYS = ("restart", "staged", "classic")
_PERIOD_SECONDS = 0.05
_TIMEOUT_SECONDS = 0.5
_UP_SECONDS = 600
_REMEMBERED = "/var/lib/vllm-redeploy/operations"
_SUPERVISOR = "/usr/local/sbin/redeploy-supervisor"
_GOING_BACK_SECONDS = 20

app = App(name="downtime")


@dataclass
class Client:
    """Asks for the list of models 20 times a second, and remembers when it was answered."""

    url: str
    answered: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Client":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def longest_gap(self) -> float:
        """Return the longest time without an answer, in seconds."""
        return max(b - a for a, b in zip(self.answered, self.answered[1:], strict=False))

    def wait_for_answers(self, since: float) -> None:
        """Wait until it has been answered for a second after some moment."""
        deadline = time.monotonic() + _UP_SECONDS
        while time.monotonic() < deadline:
            if self.answered and self.answered[-1] > since + 1:
                return
            time.sleep(_PERIOD_SECONDS)
        raise TimeoutError(f"{self.url} did not come back within {_UP_SECONDS} s")

    def _ask(self) -> None:
        headers = {"Authorization": f"Bearer {STORY.api_key or ''}"}
        with httpx.Client(headers=headers, timeout=_TIMEOUT_SECONDS, trust_env=False) as client:
            while not self._ended.is_set():
                began = time.monotonic()
                try:
                    good = client.get(f"{self.url}/v1/models").status_code == 200
                except httpx.TransportError:
                    good = False
                if good:
                    self.answered.append(time.time())
                time.sleep(max(0.0, _PERIOD_SECONDS - (time.monotonic() - began)))


@dataclass(frozen=True)
class Bench:
    """The host, its configuration, and the home of its Prefect."""

    sandbox: SandboxHost
    config: Path

    def gap_of(self, way: str) -> float:
        """Do it once and return for how long the service was not there, in seconds."""
        with Client(f"http://{self.sandbox.address}:{STORY.port}") as client:
            client.wait_for_answers(time.time())
            if way == "restart":
                ssh.run(self.sandbox, "systemctl", "restart", "--", STORY.unit)
            else:
                self._redeploy(way)
            time.sleep(1)
            client.wait_for_answers(time.time())
        return client.longest_gap

    def _redeploy(self, strategy: str) -> None:
        wish = ("--strategy", strategy, "--reinstall", "--no-benchmark", "--config", self.config)
        home = str(self.config.parent / "prefect")
        subprocess.run(
            [Path(sys.prefix, "bin", "redeploy"), "run", STORY.service, *wish],
            env={**os.environ, "PREFECT_HOME": home},
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def went_back(self, load: float) -> float:
        """Have the host go back while nobody reaches it, and return the seconds it took."""
        ssh.run(self.sandbox, "systemd-run", "--on-active=1", "--", _SUPERVISOR, "rollback")
        hosts.cut(NAME)
        time.sleep(load + _GOING_BACK_SECONDS)
        hosts.heal(NAME)
        answer = next(self._answers("rollback-*/revert"))
        if answer["error"]:
            raise RuntimeError(answer["error"]["message"])
        return float(answer["seconds"])

    def commands(self) -> list[dict[str, Any]]:
        """Return what ran while the service was stopped in the last staged redeploy."""
        results = (answer["result"] for answer in self._answers("*/attempt-1/start"))
        return next((list(one["commands"]) for one in results if "commands" in one), [])

    def _answers(self, operation: str) -> Iterator[dict[str, Any]]:
        """Yield what the host has recorded of operations of a name, the newest first."""
        newest = f"ls -t {_REMEMBERED}/{operation}/result.json"
        for path in ssh.output(self.sandbox, "sh", "-c", newest).splitlines():
            yield json.loads(ssh.output(self.sandbox, "cat", path))


@app.default
def main(
    *,
    rounds: Annotated[int, Parameter(help="How often each is done.")] = 5,
    load: Annotated[float, Parameter(help="How long the stand-in loads, in seconds.")] = 10.0,
) -> int:
    """Measure, print and keep the figures; return 1 if staged takes too much longer."""
    sandbox = story.prepare(NAME, STORY.key)
    try:
        line = f"VLLM_STANDIN_LOAD_SECONDS={load:g}\n".encode()
        file = f"/etc/vllm/{STORY.unit.removesuffix('.service')}.env"
        ssh.run(sandbox, "tee", "--append", file, stdin=line)
        with tempfile.TemporaryDirectory(prefix="downtime-") as folder:
            config = Path(folder, "redeploy.toml")
            config.write_text(toml.config_toml(sandbox, STORY))
            bench = Bench(sandbox, config)
            bench.gap_of("restart")  # with the load time that was set just now
            gaps: dict[str, list[float]] = {way: [] for way in WAYS}
            back: list[float] = []
            for number in range(rounds):
                for way in WAYS if number % 2 == 0 else reversed(WAYS):
                    gaps[way].append(round(bench.gap_of(way), 3))
                    if way == "staged":
                        back.append(bench.went_back(load))
            commands = bench.commands()
    finally:
        hosts.remove(NAME)
    return _told(load, gaps, back, commands)


def _told(
    load: float, gaps: dict[str, list[float]], back: list[float], commands: list[dict[str, Any]]
) -> int:
    middle = {way: statistics.median(found) for way, found in gaps.items()}
    allowed = 1.05 * middle["restart"] + 0.5
    table = Table("way", "median, s", "longest, s", "times a restart")
    for way, found in gaps.items():
        ratio = f"{middle[way] / middle['restart']:.2f}"
        table.add_row(way, f"{middle[way]:.2f}", f"{max(found):.2f}", ratio)
    console = Console()
    words = "s by the host alone, with index and controller gone:"
    console.print("Back", words, ", ".join(f"{one:.2f}" for one in back))
    console.print(table, f"A staged redeploy may take {allowed:.2f} s. While it was stopped:")
    for one in commands:
        line = f"{one['after_seconds']:7.3f}  {' '.join(one['argv'])}"
        console.print(line, highlight=False, no_wrap=True, overflow="ellipsis")
    document = {"load_seconds": load, "gaps": gaps, "back": back, "commands": commands}
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    return int(middle["staged"] > allowed)


if __name__ == "__main__":
    raise SystemExit(app())
