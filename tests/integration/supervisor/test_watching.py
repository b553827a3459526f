"""A start on a real host is watched: it serves, or how it failed is told at once."""

import threading
import time
from typing import Any

import pytest

from blocks.supervisor_client import Outcome
from tests.integration.polling import until
from tests.integration.supervisor.bench import ENVIRONMENT, UNIT, Bench

pytestmark = pytest.mark.host


def test_a_start_is_followed_until_it_serves(bench: Bench) -> None:
    outcome = bench.watch(bench.launch("serve"))
    assert outcome.state == "succeeded", outcome.error
    stages = [one["name"] for one in (outcome.result or {})["stages"]]
    assert "loading weights" in stages[1:-1]
    assert stages[-1] == "ready"
    result = outcome.result or {}
    assert (result["address"], result["restarts"], result["slow"]) == ("127.0.0.1", 0, [])
    assert result["seconds"]["loading weights"] > 0.3


@pytest.mark.parametrize(
    ("mode", "restart", "pause", "kind"),
    [
        ("crash", "no", "1s", "crashed"),
        ("crash", "always", "20ms", "crashed"),
        ("crash", "always", "30s", "crashed"),
        ("kill", "always", "20ms", "crashed"),
        ("exit-0", "no", "1s", "exited"),
        ("exit-0", "always", "20ms", "exited"),
        ("exit-0", "always", "30s", "exited"),
    ],
)
def test_every_death_is_noticed_at_once(
    bench: Bench, mode: str, restart: str, pause: str, kind: str
) -> None:
    error = bench.watch(bench.launch(mode, restart, pause)).error or {}
    assert error["kind"] == kind
    assert error["noticed_after_seconds"] < 0.5
    assert error["last_stage"] == "loading weights"
    assert any("going down" in line for line in error["last_lines"])


def test_what_a_service_prints_is_told_without_secrets_and_without_escapes(bench: Bench) -> None:
    launched = bench.launch("crash")
    last = (bench.watch(launched).error or {})["last_lines"]
    asked = {"unit": UNIT, "invocation": launched["invocation"], "lines": 100}
    entries = bench.supervisor.call("journal", asked)["entries"]
    told = [
        "non-default args: {'port': 8123, 'api_key': ***, 'hf_token': '***'}",
        "fetched https://***@x.example/m by Bearer ***",
    ]
    assert [line for line in last if line in told] == told
    assert [one["message"] for one in entries if one["message"] in told] == told
    remembered = (
        f"grep -rE 'k e y|sk-proj|hid' /var/lib/vllm-redeploy/operations/{bench.id} || true"
    )
    assert bench.shell(remembered) == ""


def test_a_journalctl_that_ends_loses_no_line_of_a_watch(bench: Bench) -> None:
    asked = bench.watching(bench.launch("chatter"), 5)
    watching = threading.Thread(target=lambda: bench.do("watch", "watch", **asked))
    watching.start()
    following = ["pgrep", "-x", "journalctl"]
    until(lambda: bench.host.run(following).exit == 0, "a journalctl that follows", 10)
    time.sleep(1.5)
    bench.shell("systemctl restart systemd-journald; pkill -x journalctl")
    watching.join()
    lines = (bench.do("watch", "watch", **asked).error or {})["last_lines"]
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(numbers[-1] - 19, numbers[-1] + 1))


def test_a_hang_ends_at_the_deadline_and_the_service_is_left_alone(bench: Bench) -> None:
    error = bench.watch(bench.launch("hang"), deadline=3).error or {}
    assert error["kind"] == "hung"
    assert bench.shell(f"systemctl is-active {UNIT}") == "active"


def test_a_stage_that_takes_too_long_is_named(bench: Bench) -> None:
    limits = {"loading weights": 2}
    error = bench.watch(bench.launch("hang"), deadline=30, limits=limits).error or {}
    assert (error["kind"], error["last_stage"]) == ("hung", "loading weights")
    assert "the limit of this stage is 2 s" in error["message"]
    assert any("the main process" in one for one in error["doing"])


STALL: dict[str, Any] = {"stall_floor_seconds": 3, "longest": {"loading weights": 1}}


def test_a_start_that_has_stalled_by_its_history_ends_and_says_what_it_does(bench: Bench) -> None:
    launched = bench.launch("hang")
    error = bench.watch(launched, deadline=60, **STALL).error or {}
    assert error["kind"] == "stalled", error
    assert "has never taken longer than 1 s" in error["message"]
    assert error["doing"][0].startswith("python3 (")
    assert "sleeping" in error["doing"][0]
    assert error["py_spy"] is None
    assert bench.shell(f"systemctl is-active {UNIT}") == "active"


def test_a_start_without_history_is_called_slow_and_waited_for(bench: Bench) -> None:
    asked = {**bench.watching(bench.launch("hang"), 10), "stall_floor_seconds": 3}
    seen: list[dict[str, Any]] = []
    outcome = bench.supervisor.ensure(
        f"{bench.id}/watch",
        "watch",
        asked,
        holder=bench.id,
        environment=ENVIRONMENT,
        wait_seconds=1,
        on_progress=seen.append,
    )
    error = outcome.error or {}
    assert (error["kind"], outcome.state) == ("hung", "failed")
    last = seen[-1]
    assert last["judgement"]["kind"] == "slow"
    assert "no earlier start tells" in last["judgement"]["why"]
    assert any("the main process" in one for one in last["doing"])
    assert last["says"].startswith("loading weights")


def test_py_spy_of_the_environment_says_where_the_code_is(bench: Bench) -> None:
    fake = "#!/bin/sh\necho Process $3: x --api-key sk-hidden-1234; id -un\n"
    bench.shell(f"rm -rf {ENVIRONMENT}; id keeper || useradd -m keeper")
    bench.shell(f"install -d -o keeper {ENVIRONMENT} {ENVIRONMENT}/bin")
    bench.host.put(fake.encode(), f"{ENVIRONMENT}/bin/py-spy", 0o755)
    more: dict[str, Any] = {**STALL, "environment": ENVIRONMENT}
    error = bench.watch(bench.launch("hang"), deadline=60, **more).error or {}
    bench.shell(f"rm -rf {ENVIRONMENT}")
    pid = error["unit"]["main_pid"]
    assert error["py_spy"] == f"Process {pid}: x --api-key ***\nkeeper"


def test_a_restart_is_followed_where_it_is_tolerated_and_counted(bench: Bench) -> None:
    bench.shell("rm -f /run/crashed-once")
    launched = bench.launch("crash-once", "always")
    outcome = bench.watch(launched, restarts_tolerated=1)
    assert outcome.state == "succeeded", outcome.error
    result = outcome.result or {}
    assert result["restarts"] == 1
    assert result["invocation"] != launched["invocation"]
    assert result["stages"][0]["at"] > 0.3
    held = {**bench.watching(launched, 8), "seconds": 1}
    assert bench.do("held", "hold", **held, restarts_tolerated=1).state == "succeeded"
    assert (bench.do("none", "hold", **held).error or {})["kind"] == "crashed"
    asked = {"unit": UNIT, "invocation": launched["invocation"], "port": 8123}
    alive = bench.supervisor.call("alive", {**asked, "restarts_tolerated": 1})
    assert alive == {"died": None, "address": "127.0.0.1", "others": []}
    assert bench.supervisor.call("alive", asked)["died"] == "crashed"


@pytest.mark.parametrize("pause", ["20ms", "1s"])
def test_one_restart_too_many_is_a_crash(bench: Bench, pause: str) -> None:
    error = bench.watch(bench.launch("crash", "always", pause), restarts_tolerated=1).error or {}
    assert error["kind"] == "crashed"
    assert error["noticed_after_seconds"] < 1
    assert error["last_stage"] == "loading weights"
    assert "going down" in error["last_lines"]


def test_a_systemd_that_does_not_answer_for_a_while_fails_nothing(bench: Bench) -> None:
    launched = bench.launch("serve")
    assert bench.watch(launched).state == "succeeded"
    asked = {**bench.watching(launched, 8), "seconds": 8}
    held: list[Outcome] = []
    holding = threading.Thread(target=lambda: held.append(bench.do("hold", "hold", **asked)))
    holding.start()
    until(lambda: bench.events("hold") == ["started"], "the start of the operation", 10)
    time.sleep(1)
    bench.shell("mount --bind /bin/false /bin/systemctl; sleep 6; umount /bin/systemctl")
    holding.join()
    assert held[0].state == "succeeded", held[0].error
