"""A benchmark on a real host measures the service, and tells a dead one from a slow one."""

import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from blocks.errors import Refused
from blocks.supervisor_client import Outcome
from tests.integration.polling import until
from tests.integration.supervisor.bench import ENVIRONMENT, UNIT, Bench

pytestmark = pytest.mark.host

PROBE_BENCH = Path(__file__).with_name("probe_bench.py")
DEATHS = (
    "journalctl -o short-unix -g 'Main process exited' --no-pager -q | tail -1 | cut -d' ' -f1; #"
)


class Measuring:
    """A service that serves, an environment with a benchmark, and the question of a benchmark."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.invocation = ""
        bench.shell(f"rm -rf {ENVIRONMENT}*; mkdir -p {ENVIRONMENT}/bin")
        bench.shell(f"ln -s /usr/bin/python3 {ENVIRONMENT}/bin/python")
        bench.host.put(PROBE_BENCH.read_bytes(), f"{ENVIRONMENT}/bin/vllm", 0o755)

    def serve(self, mode: str, restart: str = "no") -> None:
        launched = self.bench.launch(mode, restart)
        assert self.bench.watch(launched).state == "succeeded"
        self.invocation = launched["invocation"]

    def at_work(self) -> bool:
        return self.bench.host.run(["pgrep", "-f", "[b]ench serve"]).exit == 0

    def ask(self, name: str = "benchmark", key: str | None = None, **changed: Any) -> Outcome:
        shape = {"num_prompts": 8, "input_len": 1, "output_len": 1}
        asked = {"environment": ENVIRONMENT, "unit": UNIT, "port": 8123, "model": "m", **shape}
        return self.bench.supervisor.ensure(
            f"{self.bench.id}/{name}",
            "benchmark",
            {**asked, "timeout_seconds": 60, **changed},
            holder=self.bench.id,
            environment=ENVIRONMENT,
            secrets={"OPENAI_API_KEY": SecretStr(key)} if key else None,
        )


@pytest.fixture
def measuring(bench: Bench) -> Iterator[Measuring]:
    yield Measuring(bench)
    bench.shell(f"rm -rf {ENVIRONMENT}*")


def test_a_service_is_measured_where_it_listens(measuring: Measuring) -> None:
    measuring.serve("serve-v6")
    outcome = measuring.ask()
    assert outcome.state == "succeeded", outcome.error
    assert (outcome.result or {})["completed"] == 8
    log = measuring.bench.shell(
        f"cat /var/lib/vllm-redeploy/operations/{measuring.bench.id}/benchmark/output.log"
    )
    assert "\x1b" not in log
    assert log.count("it/s]") == 1


@pytest.mark.parametrize("restart", ["no", "always"])
def test_a_service_that_dies_under_its_benchmark_is_what_failed(
    measuring: Measuring, restart: str
) -> None:
    measuring.serve("serve-and-die", restart)
    began = time.monotonic()
    error = measuring.ask().error or {}
    assert time.monotonic() - began < 5
    assert (error["kind"], error["invocation"]) == ("crashed", measuring.invocation)
    assert "going down" in error["last_lines"]
    assert not measuring.at_work()
    died = float(measuring.bench.shell(f"{DEATHS} _SYSTEMD_INVOCATION_ID={measuring.invocation}"))
    failed = next(one for one in reversed(measuring.bench.log()) if one["event"] == "failed")
    assert failed["time"] - died < 2


def test_a_service_that_hangs_under_its_benchmark_is_what_failed(measuring: Measuring) -> None:
    measuring.serve("serve-and-hang")
    began = time.monotonic()
    error = measuring.ask(stall_seconds=2).error or {}
    assert 12 < time.monotonic() - began < 20
    assert (error["kind"], error["invocation"]) == ("hung", measuring.invocation)
    assert (error["last_stage"], error["unit"]["active_state"]) == ("ready", "active")
    assert "going on" in error["last_lines"]
    assert any("the main process" in one for one in error["doing"])
    assert not measuring.at_work()


def test_a_benchmark_that_is_slow_is_not_taken_for_a_service_that_hangs(
    measuring: Measuring,
) -> None:
    measuring.serve("serve-slowly")
    outcome = measuring.ask(stall_seconds=1, num_prompts=3)
    assert outcome.state == "succeeded", outcome.error


KEY = "a-key-that-nobody-may-see"
SEARCH = f"""
key=$(printf %s {KEY[::-1]} | rev)
grep -rlF -e "$key" /var/lib/vllm-redeploy /run/vllm-redeploy && echo FOUND in files
journalctl --no-pager -a | grep -F -e "$key" && echo FOUND in the journal
for one in /proc/[0-9]*/cmdline; do
    tr '\\0' ' ' <"$one" 2>/dev/null | grep -qF -e "$key" && echo FOUND in "$one"
done
systemctl show 'redeploy-op-*' | grep -F -e "$key" && echo FOUND by systemctl show
true
"""


def test_a_key_reaches_the_benchmark_and_nothing_else(measuring: Measuring) -> None:
    measuring.bench.host.put(KEY.encode(), "/opt/key", 0o600)
    measuring.serve("serve-key")
    outcomes: list[Outcome] = []
    ask = functools.partial(measuring.ask, num_prompts=20)
    caller = threading.Thread(target=lambda: outcomes.append(ask(key=KEY)))
    caller.start()
    until(measuring.at_work, "a benchmark at work", 20)
    seen_at_work = measuring.bench.shell(SEARCH)
    measuring.bench.kill("benchmark")
    caller.join()
    assert outcomes[0].state == "succeeded", outcomes[0].error
    assert (outcomes[0].result or {})["said"] == "***"
    assert measuring.bench.events("benchmark") == [
        "started",
        "interrupted",
        "started",
        "finished",
    ]
    assert (seen_at_work, measuring.bench.shell(SEARCH)) == ("", "")
    without = measuring.ask("without").error or {}
    assert (without["kind"], without["failed"]) == ("benchmark-failed", 8)
    with pytest.raises(Refused) as refused:
        measuring.bench.supervisor.ensure(
            f"{measuring.bench.id}/other",
            "benchmark",
            {},
            holder=measuring.bench.id,
            environment=ENVIRONMENT,
            secrets={"PATH": SecretStr(KEY)},
        )
    assert refused.value.kind == "bad-argument"
    assert KEY not in str(refused.value)
