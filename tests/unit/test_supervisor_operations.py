"""An operation is done once, whoever asks. Systemd's part is a process of our own here."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor.arguments import ANSWER_STANDS, DOING
from blocks.supervisor.failures import Refusal
from blocks.supervisor.handover import Handover
from blocks.supervisor.operations import MOST_TRIES, Operations
from blocks.supervisor.store import Store
from tests.integration.polling import until

ROOT = Path(__file__).parents[2]
RUNNER = """
import os, sys, time
from pathlib import Path
from blocks.supervisor.failures import Failure
from blocks.supervisor.handover import Handover
from blocks.supervisor.operations import Operations
from blocks.supervisor.processes import stream
from blocks.supervisor.store import Store

def work(arguments, work):
    print("at work", flush=True)
    work.progress(stage="working")
    time.sleep(arguments["seconds"])
    if arguments.get("fail"):
        raise Failure("broken", "It broke.", "Mend it.", part="wheel")
    if arguments.get("stumble"):
        raise KeyError("unforeseen")
    return {"slept": arguments["seconds"]}

def remember(arguments, work):
    return {"document": arguments["document"]}

def use(arguments, work):
    stream(["printenv"], environment={**os.environ, **work.secrets}, timeout=10)
    time.sleep(arguments["seconds"])
    return {"used": sorted(work.secrets), "kept": "".join(work.secrets.values()) == KEY}

KEY = "a-key-that-nobody-may-see"
doers = {"work": work, "remember": remember, "use": use, "discard": remember}
root = Path(sys.argv[1])
Operations(Store(root), None, Handover(root.with_name("run"))).execute(sys.argv[2], doers)
"""


class Processes:
    """Starts operations as processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[str] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, operation: str) -> None:
        self.started.append(operation)
        command = [sys.executable, "-c", RUNNER, str(self.root), operation]
        self.processes[operation] = subprocess.Popen(command, cwd=ROOT)

    def running(self, operation: str) -> bool:
        process = self.processes.get(operation)
        return process is not None and process.poll() is None

    def end(self, operation: str) -> None:
        self.processes[operation].kill()
        self.processes[operation].wait()

    def forget(self, operation: str) -> None:
        self.processes.pop(operation).wait()


class Desk:
    """Operations with their launcher."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root)
        self.launcher = Processes(root)
        self.handed = root.with_name("run")
        self.told: list[dict[str, Any]] = []
        self.operations = Operations(self.store, self.launcher, Handover(self.handed))

    def ask(
        self,
        name: str,
        wait: float = 20,
        verb: str = "work",
        environment: str = "/e",
        secrets: dict[str, str] | None = None,
        tell_seconds: float | None = None,
        **given: Any,
    ) -> dict[str, Any]:
        names = {"operation": name, "verb": verb, "holder": "h", "environment": environment}
        request: dict[str, Any] = {**names, "secrets": secrets or {}}
        request |= {"arguments": given, "wait_seconds": wait, "tell_seconds": tell_seconds}
        return self.operations.ensure(request, self.told.append)

    def events(self) -> list[str]:
        lines = self.store.log_path.read_text().splitlines()
        return [str(json.loads(line)["event"]) for line in lines]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "kept")


def test_a_finished_one_is_answered_from_the_record(desk: Desk) -> None:
    first = desk.ask("r/a", seconds=0)
    again = desk.ask("r/a", seconds=0)
    assert first["result"] == {"slept": 0}
    assert (first["attached"], again["attached"]) == (False, True)
    assert {**again, "attached": False} == first
    assert desk.launcher.started == ["r/a"]
    until(lambda: desk.events() == ["started", "finished"], "its end is logged as well", 5)


def test_what_is_given_up_is_ended_and_nothing_more_begins(desk: Desk) -> None:
    assert desk.ask("h/stage", wait=0.3, seconds=60)["state"] == "running"
    assert desk.ask("h/discard", verb="discard", document={})["state"] == "succeeded"
    assert not desk.launcher.running("h/stage")
    with pytest.raises(Refusal) as refused:
        desk.ask("h/swap", verb="swap")
    assert refused.value.kind == "given-up"


def test_two_at_once_start_it_once(desk: Desk) -> None:
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        answers.append(desk.ask("r/a", seconds=0.3))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert desk.launcher.started == ["r/a"]
    assert [one["state"] for one in answers] == ["succeeded"] * 5
    assert sorted(one["attached"] for one in answers) == [False, True, True, True, True]


def test_it_answers_running_after_the_wait(desk: Desk) -> None:
    answer = desk.ask("r/a", wait=0.6, seconds=1)
    assert (answer["state"], answer["result"]) == ("running", None)
    assert desk.ask("r/a", seconds=1)["state"] == "succeeded"


def test_a_failure_is_a_recorded_answer(desk: Desk) -> None:
    desk.ask("r/a", seconds=0, fail=True)
    answer = desk.ask("r/a", seconds=0)
    assert answer["state"] == "failed"
    assert answer["error"] == {
        "kind": "broken",
        "message": "It broke.",
        "hint": "Mend it.",
        "part": "wheel",
    }
    assert desk.events() == ["started", "failed"]


def test_an_unforeseen_error_is_recorded_with_its_traceback_in_the_log(desk: Desk) -> None:
    answer = desk.ask("r/a", seconds=0, stumble=True)
    assert answer["error"]["kind"] == "unexpected"
    assert "KeyError" in (desk.store.operations / "r/a/output.log").read_text()


def test_a_killed_one_is_interrupted_and_runs_again(desk: Desk) -> None:
    desk.ask("r/a", wait=0.5, seconds=0.8)
    desk.launcher.processes["r/a"].kill()
    desk.launcher.processes["r/a"].wait()
    assert [one["state"] for one in desk.operations.under("r")] == ["interrupted"]
    assert desk.ask("r/a", seconds=0.8)["state"] == "succeeded"
    assert desk.events() == ["started", "interrupted", "started", "finished"]
    assert desk.operations.under("r")[0]["tries"] == 2


def test_one_killed_under_a_waiting_caller_runs_again(desk: Desk) -> None:
    answers: list[dict[str, Any]] = []
    caller = threading.Thread(target=lambda: answers.append(desk.ask("r/a", seconds=1)))
    caller.start()
    time.sleep(0.5)
    desk.launcher.processes["r/a"].kill()
    caller.join()
    assert answers[0]["state"] == "succeeded"
    assert desk.events().count("interrupted") == 1


def test_one_that_is_killed_each_time_is_given_up(desk: Desk) -> None:
    for _ in range(MOST_TRIES):
        desk.ask("r/a", wait=0, seconds=9)
        desk.launcher.processes["r/a"].kill()
        desk.launcher.processes["r/a"].wait()
    assert desk.ask("r/a", seconds=9)["error"]["kind"] == "interrupted"
    assert len(desk.launcher.started) == MOST_TRIES


def test_one_name_stands_for_one_verb(desk: Desk) -> None:
    desk.ask("r/a", seconds=0)
    with pytest.raises(Refusal) as refused:
        desk.ask("r/a", verb="other")
    assert refused.value.kind == "other-verb"


@pytest.mark.parametrize("state", ["running", "finished"])
def test_one_name_stands_for_one_question(desk: Desk, state: str) -> None:
    desk.ask("r/a", wait=0 if state == "running" else 20, seconds=0.5)
    for changed in ({"seconds": 1}, {"seconds": 0.5, "environment": "/other"}):
        with pytest.raises(Refusal) as refused:
            desk.ask("r/a", **changed)
        assert refused.value.kind == "other-operation"
        assert refused.value.fields["differs"] == [list(changed)[-1]]
    assert desk.ask("r/a", seconds=0.5)["result"] == {"slept": 0.5}
    assert desk.launcher.started == ["r/a"]


def test_an_argument_of_a_newer_version_makes_no_other_question(desk: Desk) -> None:
    desk.ask("r/a", seconds=0)
    assert desk.ask("r/a", seconds=0, stall_seconds=9)["state"] == "succeeded"


def test_some_answers_stand_whatever_is_asked_now(desk: Desk) -> None:
    first = desk.ask("r/a", verb="remember", document={"a": 1})
    second = desk.ask("r/a", verb="remember", document={"a": 2}, environment="/other")
    assert first["result"] == second["result"] == {"document": {"a": 1}}


KEY = {"OPENAI_API_KEY": "a-key-that-nobody-may-see"}


def test_a_secret_reaches_the_operation_and_is_kept_nowhere(desk: Desk, tmp_path: Path) -> None:
    answer = desk.ask("r/a", verb="use", secrets=KEY, seconds=0)
    assert answer["result"] == {"used": ["OPENAI_API_KEY"], "kept": True}
    assert desk.ask("r/a", verb="use", seconds=0)["result"] == answer["result"]
    assert "OPENAI_API_KEY=***" in (desk.store.operations / "r/a/output.log").read_text()
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(KEY["OPENAI_API_KEY"] in text for text in written)
    assert list(desk.handed.iterdir()) == []


def test_a_secret_is_brought_again_for_a_run_that_was_killed(desk: Desk) -> None:
    for name, again in (("r/a", KEY), ("r/b", {})):
        desk.ask(name, wait=0.5, verb="use", secrets=KEY, seconds=0.8)
        desk.launcher.processes[name].kill()
        desk.launcher.processes[name].wait()
        answer = desk.ask(name, verb="use", secrets=again, seconds=0.8)
        assert answer["result"]["used"] == sorted(again)


def test_it_is_decided_for_every_verb() -> None:
    assert ANSWER_STANDS.keys() == DOING.keys()
    standing = {verb for verb, stands in ANSWER_STANDS.items() if stands}
    lasting = {"remember", "facts", "journal", "resolve", "watch", "hold"}
    assert standing == {*lasting, "open", "revert", "record"}


def test_operations_are_listed_below_a_name_in_order(desk: Desk) -> None:
    for name in ("r/b", "r/attempt-1/a", "r2/x", "r/attempt-10/a"):
        desk.ask(name, seconds=0)
    assert [one["operation"] for one in desk.operations.under("r")] == [
        "r/b",
        "r/attempt-1/a",
        "r/attempt-10/a",
    ]
    assert [one["operation"] for one in desk.operations.under("r/attempt-1")] == ["r/attempt-1/a"]


def test_only_what_may_matter_is_read(desk: Desk) -> None:
    desk.ask("r/a", seconds=0)
    desk.ask("r2/a", seconds=0)
    (desk.store.operations / "r/a/request.json").write_text("torn {")
    assert desk.operations.running() == []
    assert [one["operation"] for one in desk.operations.under("r2")] == ["r2/a"]
    assert desk.operations.under("r3") == []


def test_what_runs_is_told_with_its_progress(desk: Desk) -> None:
    desk.ask("r/a", wait=0, seconds=1)
    progress = until(lambda: desk.operations.running()[0]["progress"], "a progress", 10)
    assert progress == {"stage": "working"}
    desk.ask("r/a", seconds=1)
    assert desk.operations.running() == []


def test_a_progress_is_told_once_to_one_who_waits_for_it(desk: Desk) -> None:
    desk.ask("r/a", seconds=0.5)
    assert desk.told == []
    desk.ask("r/b", tell_seconds=0.1, seconds=0.5)
    assert desk.told == [{"stage": "working"}]
