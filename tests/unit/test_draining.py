"""Draining and undraining: real calls and real metrics; the host's record is in memory."""

import json
import time
from typing import Any, cast

import pytest

from blocks.errors import HostError, HostUnreachable
from blocks.hooks import CommandHook
from blocks.host import Host
from blocks.service import Service
from tasks import undrain as undraining
from tasks.drain import Drained, Unreadable, requests_in, take_out, wait_until_idle
from tasks.errors import StepFailed
from tasks.redeployment import Redeployment
from tasks.request import Request
from tasks.undrain import put_back, put_in
from tests.unit.routers import IDLE, SECRET, NearHost, Router

pytestmark = pytest.mark.usefixtures("quickly")


def test_requests_are_counted_over_all_engines() -> None:
    text = (
        'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        'vllm:num_requests_waiting{engine="0"} 4.0\nvllm:num_requests_waiting{engine="1"} 0.0\n'
        "vllm:prompt_tokens_total 9\n"
    )
    assert requests_in(text) == 7


@pytest.mark.parametrize(
    "text",
    ["", "<html>", "vllm:num_requests_running 0\n", IDLE.replace("running 0", "running NaN")],
)
def test_metrics_that_do_not_say_it_are_not_idle(text: str) -> None:
    with pytest.raises(Unreadable):
        requests_in(text)


def waited(readings: list[int | None], deadline: float = 60) -> tuple[int | None, list[str], float]:
    said: list[str] = []

    def read() -> int:
        found = readings.pop(0) if len(readings) > 1 else readings[0]
        if found is None:
            raise Unreadable("no answer")
        return found

    began = time.monotonic()
    left = wait_until_idle(read, deadline, lambda message, _level: said.append(message))
    return left, said, time.monotonic() - began


def test_one_idle_reading_is_not_enough() -> None:
    left, said, seconds = waited([2, 0, 1, 0, 0])
    assert left == 0
    assert said == ["requests under way: 2", "requests under way: 1"]
    assert 2 < seconds < 5


def test_the_deadline_ends_the_wait_with_what_is_left() -> None:
    left, said, seconds = waited([3], deadline=1)
    assert left == 3
    assert said == ["requests under way: 3"]
    assert 1 <= seconds < 2
    assert waited([3], deadline=0)[0] == 3


def test_what_cannot_be_read_three_times_is_not_waited_for() -> None:
    left, said, seconds = waited([None, 1, None, None, None])
    assert left is None
    assert [one for one in said if "cannot be counted" in one] == [said[0]] * 4
    assert seconds < 8


class Run(Redeployment):
    """A redeploy whose host remembers in memory, and is lost when a test says so."""

    def __init__(self, service: Service) -> None:
        super().__init__("r1", Request(service="small"), service)
        self.near = NearHost()
        self.host = cast("Host", self.near)
        self.remembered: dict[str, Any] = {}
        self.lines: list[str] = []

    def done(self) -> set[str]:
        self._reach()
        return {name.removeprefix("r1/") for name in self.remembered}

    def do(self, step: str, verb: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        self._reach()
        assert (step, verb) in (("drain", "remember"), ("undrain", "remember"))
        name = self.operation(more["operation"])
        self.lines.append(f"remember {name}")
        return {"document": self.remembered.setdefault(name, arguments["document"])}

    def log(self, message: str, level: int = 20) -> None:
        self.lines.append(f"{level} {message}")

    def log_unexpected(self, error: Exception) -> None:
        self.lines.append(repr(error))

    def _reach(self) -> None:
        if self.near.lost:
            raise HostUnreachable("The link is gone.")


@pytest.fixture
def run(router: Router) -> Run:
    host = Host(address="127.0.0.1")
    service = Service(
        host=host,
        unit="vllm",
        environment="/opt/env",
        port=router.port,
        drain=router.hook(body="out", bearer=SECRET),
        undrain=router.hook(body="in", bearer=SECRET),
        drain_deadline_seconds=5,
    )
    return Run(service)


@pytest.fixture(autouse=True)
def no_prefect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `put_back` call the step's function, without a task around it."""
    monkeypatch.setattr(undraining, "undrain", put_in)


def bodies(router: Router) -> list[str]:
    return [body for method, _, _, body in router.calls if method == "POST"]


def test_a_service_without_hooks_is_left_alone(run: Run, router: Router) -> None:
    run.service = run.service.model_copy(update={"drain": None})
    assert take_out(run, "127.0.0.1") == Drained()
    assert put_back(run, serving=True) == ""
    assert put_back(run, serving=False) == ""
    assert (router.calls, run.lines) == ([], [])


def test_the_service_is_drained_and_put_back_once_each(run: Run, router: Router) -> None:
    router.metrics = [IDLE.replace("running 0", "running 2"), IDLE]
    drained = take_out(run, "127.0.0.1")
    assert (drained.requests_left, drained.hook) == (0, True)
    assert 0.5 <= drained.seconds < 5
    assert run.lines[0] == "remember r1/draining-1"
    assert "requests under way: 2" in run.lines[2]
    assert run.lines[-1] == "remember r1/drained-1"
    with run.in_phase("attempt-2"):
        assert take_out(run, "127.0.0.1") == drained
    assert bodies(router) == ["out"]
    assert put_back(run, serving=True) == ""
    assert put_back(run, serving=True) == ""
    assert bodies(router) == ["out", "in"]
    assert SECRET not in "".join(run.lines) + json.dumps(run.remembered)


def test_requests_that_do_not_end_are_cut_off_and_that_is_said(run: Run, router: Router) -> None:
    run.service = run.service.model_copy(update={"drain_deadline_seconds": 1})
    router.metrics = [IDLE.replace("waiting 0", "waiting 4")]
    assert take_out(run, "127.0.0.1").requests_left == 4
    assert "30 4 requests are cut off: they did not end in 1 s" in run.lines


def test_metrics_that_cannot_be_read_do_not_hold_it_up(run: Run, router: Router) -> None:
    router.metrics = [""]
    assert take_out(run, "127.0.0.1").requests_left is None
    assert "30 how many requests are cut off is unknown" in run.lines
    assert sum("/metrics answers 500" in line for line in run.lines) == 3


def test_a_drain_that_fails_ends_the_step_and_is_undone(run: Run, router: Router) -> None:
    router.statuses = [403]
    with pytest.raises(StepFailed, match="status 403") as failed:
        take_out(run, "127.0.0.1")
    assert (failed.value.step, failed.value.kind) == ("drain", "hook-failed")
    assert "r1/drained-1" not in run.remembered
    assert put_back(run, serving=True) == ""
    assert bodies(router) == ["out", "in"]


def test_what_was_put_back_is_drained_anew_and_put_back_again(run: Run, router: Router) -> None:
    """As on Retry of a run whose drain hook failed, or whose stop was refused."""
    router.statuses = [403]
    with pytest.raises(StepFailed):
        take_out(run, "127.0.0.1")
    assert put_back(run, serving=True) == ""
    take_out(run, "127.0.0.1")
    assert put_back(run, serving=False).startswith("STILL DRAINED: ")
    assert put_back(run, serving=True) == ""
    assert bodies(router) == ["out", "in", "out", "in"]
    assert {"r1/undrained-1", "r1/drained-2", "r1/undrained-2"} <= run.remembered.keys()


def test_a_run_that_was_killed_in_its_hook_calls_it_again(run: Run, router: Router) -> None:
    run.remembered["r1/draining-1"] = {}
    take_out(run, "127.0.0.1")
    assert bodies(router) == ["out"]


def test_a_service_that_was_not_drained_is_not_put_back(run: Run, router: Router) -> None:
    assert put_back(run, serving=True) == ""
    assert put_back(run, serving=False) == ""
    assert router.calls == []


def test_a_service_that_does_not_serve_stays_out_and_that_is_said(run: Run, router: Router) -> None:
    take_out(run, "127.0.0.1")
    said = put_back(run, serving=False)
    assert said.startswith("STILL DRAINED: the service does not serve")
    assert said.endswith(f"When it serves: POST {router.url}/hook.")
    assert bodies(router) == ["out"]


def test_an_undrain_that_fails_is_said_loudly(run: Run, router: Router) -> None:
    take_out(run, "127.0.0.1")
    router.statuses, router.answer = [401], f"bad key {SECRET}"
    said = put_back(run, serving=True)
    assert said.startswith("STILL DRAINED: the undrain hook failed: ")
    assert "status 401: bad key ***" in said
    assert said.endswith(f"Do it by hand: POST {router.url}/hook.")
    assert SECRET not in said


def test_a_service_without_an_undrain_hook_is_said_to_be_out(run: Run) -> None:
    take_out(run, "127.0.0.1")
    run.service = run.service.model_copy(update={"undrain": None})
    assert put_back(run, serving=True).startswith("STILL DRAINED: ")


def test_a_lost_host_does_not_hinder_a_call_from_here(run: Run, router: Router) -> None:
    take_out(run, "127.0.0.1")
    run.took("drain", 1.0, ok=True)
    run.near.lost = True
    assert put_back(run, serving=True) == ""
    assert bodies(router) == ["out", "in"]
    assert any("not recorded" in line for line in run.lines)


def test_a_lost_host_whose_command_undrains_is_said(run: Run) -> None:
    take_out(run, "127.0.0.1")
    run.took("drain", 1.0, ok=True)
    hook = CommandHook(argv=["router", "add", "a b"])
    run.service = run.service.model_copy(update={"undrain": hook})
    run.near.lost = True
    said = put_back(run, serving=True)
    assert said.startswith("STILL DRAINED: the undrain hook failed: The link is gone.")
    assert said.endswith("Do it by hand: `router add 'a b'` on the host.")


def test_a_lost_host_ends_the_drain_as_a_lost_host(run: Run) -> None:
    run.near.lost = True
    with pytest.raises(HostError):
        take_out(run, "127.0.0.1")
