"""Operations on a real host survive callers, links, kills and reboots."""

import threading
import time

import pytest

from blocks.errors import Refused
from blocks.supervisor_client import Outcome
from deployments.sandbox import hosts
from tests.integration.polling import until
from tests.integration.supervisor.bench import ENVIRONMENT, NAME, UNIT, Bench, start_caller

pytestmark = pytest.mark.host


def test_an_unknown_unit_fails_with_its_load_state(bench: Bench) -> None:
    for name, verb in (("a", "start"), ("b", "stop")):
        more = {"timeout_seconds": 1} if verb == "stop" else {}
        error = bench.do(name, verb, unit="nowhere.service", **more).error or {}
        assert error["kind"] == "no-such-unit"
        assert "LoadState=not-found" in error["message"]


def test_a_stop_that_takes_too_long_says_so(bench: Bench) -> None:
    bench.watch(bench.launch("deaf"))
    error = bench.do("stop", "stop", unit=UNIT, timeout_seconds=1).error or {}
    assert error["kind"] == "still-running"
    bench.shell(f"systemctl kill --signal=KILL {UNIT}")


def test_a_killed_caller_is_followed_by_another_that_attaches(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 6)
    caller = start_caller(bench, "watch", asked)
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 30)
    caller.kill()
    caller.wait()
    outcome = bench.do("watch", "watch", **asked)
    assert (outcome.attached, (outcome.error or {})["kind"]) == (True, "hung")
    assert bench.events("watch") == ["started", "failed"]


def test_a_killed_operation_is_interrupted_and_runs_again(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 6)
    outcomes: list[Outcome] = []
    callers = [
        threading.Thread(target=lambda: outcomes.append(bench.do("watch", "watch", **asked)))
        for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 10)
    bench.kill("watch")
    for caller in callers:
        caller.join()
    assert bench.events("watch") == ["started", "interrupted", "started", "failed"]
    assert [(one.error or {})["kind"] for one in outcomes] == ["hung"] * 3


def test_a_cut_link_does_not_end_an_operation(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 30)
    outcomes: list[Outcome] = []
    caller = threading.Thread(target=lambda: outcomes.append(bench.do("watch", "watch", **asked)))
    caller.start()
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 10)
    hosts.cut(NAME)
    time.sleep(20)
    hosts.heal(NAME)
    caller.join()
    assert (outcomes[0].error or {})["kind"] == "hung"
    assert bench.events("watch") == ["started", "failed"]


def test_a_reboot_interrupts_an_operation_and_the_next_caller_has_it_done(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 60)
    caller = start_caller(bench, "watch", asked)
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 30)
    caller.kill()
    caller.wait()
    hosts.reboot(NAME)
    assert bench.supervisor.call("status", {})["running"] == []
    listed = bench.supervisor.call("operations", {"prefix": bench.id})["operations"]
    assert [one["state"] for one in listed] == ["succeeded", "interrupted"]
    error = bench.do("watch", "watch", **asked).error or {}
    assert error["kind"] == "rebooted"
    assert any("going on" in line for line in error["last_lines"])
    assert bench.events("watch") == ["started", "interrupted", "started", "failed"]


def test_a_name_does_not_stand_for_another_question(bench: Bench) -> None:
    bench.launch("hang")
    bench.do("stop", "stop", unit=UNIT, timeout_seconds=5)
    with pytest.raises(Refused) as refused:
        bench.do("stop", "stop", unit="other.service", timeout_seconds=5)
    assert (refused.value.kind, refused.value.fields["differs"]) == ("other-operation", ["unit"])


def test_facts_of_an_environment_that_does_not_answer(bench: Bench) -> None:
    info = f"{ENVIRONMENT}/lib/python3.11/site-packages/x-1.dist-info"
    bench.shell(f"rm -rf {ENVIRONMENT}*; mkdir -p {info}; mkfifo {info}/METADATA")
    asked = {"unit": UNIT, "environment": ENVIRONMENT, "model": "/nowhere"}
    facts = bench.supervisor.call("facts", asked, timeout=50)
    bench.shell(f"rm -rf {ENVIRONMENT}*")
    assert "did not answer" in facts["environment"]["problem"]
    assert (facts["unit"]["load_state"], facts["model"]["exists"]) == ("loaded", False)


def test_only_the_holder_of_the_lock_may_act(bench: Bench) -> None:
    stop = {"unit": UNIT, "timeout_seconds": 1}
    with pytest.raises(Refused) as refused:
        bench.supervisor.ensure("other/stop", "stop", stop, holder="other", environment=ENVIRONMENT)
    assert (refused.value.kind, refused.value.fields["holder"]) == ("locked", bench.id)
