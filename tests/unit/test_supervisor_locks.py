"""One redeploy an environment at a time, and a dead holder is recognised."""

import json
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import store
from blocks.supervisor.failures import Refusal
from blocks.supervisor.locks import Locks
from blocks.supervisor.store import Store

ENVIRONMENT = "/opt/vllm/env"


class Room:
    """Locks, and who is at work."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root)
        self.at_work: set[str] = set()
        self.half_done: set[str] = set()
        self.locks = Locks(self.store, self.at_work.__contains__, self.half_done.__contains__)

    def take(self, holder: str, environment: str = ENVIRONMENT) -> dict[str, Any]:
        asked = {"environment": environment, "holder": holder, "who": "me", "why": "test"}
        return self.locks.take({**asked, "lease_seconds": 60})

    def let_the_lease_run_out(self) -> None:
        for path in self.store.locks.glob("*.json"):
            held = store.read(path) or {}
            store.write(path, {**held, "renewed": held["renewed"] - 61})


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_held_one_is_refused_with_who_and_why(room: Room) -> None:
    room.take("a")
    with pytest.raises(Refusal) as refused:
        room.take("b")
    assert refused.value.kind == "locked"
    assert {key: refused.value.fields[key] for key in ("holder", "who", "why")} == {
        "holder": "a",
        "who": "me",
        "why": "test",
    }


def test_the_holder_may_ask_again_and_keeps_since(room: Room) -> None:
    room.take("a")
    since = room.locks.all()[0]["since"]
    assert room.take("a") == {"acquired": True, "taken_over": None}
    assert room.locks.all()[0]["since"] == since


def test_a_dead_one_is_taken_over(room: Room) -> None:
    room.take("a")
    room.let_the_lease_run_out()
    assert room.locks.all()[0]["dead"]
    assert room.take("b")["taken_over"]["holder"] == "a"


def test_one_whose_operation_runs_is_not_dead(room: Room) -> None:
    room.take("a")
    room.let_the_lease_run_out()
    room.at_work.add("a")
    with pytest.raises(Refusal):
        room.take("b")


def test_a_renewed_one_is_alive(room: Room) -> None:
    room.take("a")
    room.let_the_lease_run_out()
    room.locks.renew(ENVIRONMENT, "a")
    with pytest.raises(Refusal):
        room.take("b")


def test_only_the_holder_renews_and_gives_back(room: Room) -> None:
    room.take("a")
    with pytest.raises(Refusal):
        room.locks.renew(ENVIRONMENT, "b")
    assert room.locks.give_back(ENVIRONMENT, "b") == {"released": False}
    assert room.locks.give_back(ENVIRONMENT, "a") == {"released": True}
    assert room.locks.give_back(ENVIRONMENT, "a") == {"released": False}
    with pytest.raises(Refusal) as refused:
        room.locks.renew(ENVIRONMENT, "a")
    assert refused.value.kind == "not-locked"


def test_environments_have_locks_of_their_own_and_links_do_not_dodge_them(
    room: Room, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    room.take("a", f"{tmp_path}/real/env")
    room.take("b", f"{tmp_path}/real/env2")
    with pytest.raises(Refusal):
        room.take("c", f"{tmp_path}/link/env")


def test_a_dead_one_that_had_stopped_the_service_is_not_taken_over(room: Room) -> None:
    room.take("a")
    room.let_the_lease_run_out()
    room.half_done.add("a")
    with pytest.raises(Refusal, match="fell silent") as refused:
        room.take("b")
    assert refused.value.kind == "unfinished"
    assert "redeploy resume a" in refused.value.hint
    assert room.take("a")["acquired"]


def events(room: Room) -> list[str]:
    return [json.loads(line)["event"] for line in room.store.log_path.read_text().splitlines()]


def test_a_power_cut_costs_no_line_of_the_log(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    class PowerCut(BaseException):
        """Nothing that comes after it is done."""

    def cut(*_: object) -> None:
        raise PowerCut

    with monkeypatch.context() as now:
        now.setattr(store, "write", cut)
        with pytest.raises(PowerCut):
            room.take("a")
    assert events(room) == ["locked"]
    room.take("a")
    with monkeypatch.context() as now:
        now.setattr(Path, "unlink", cut)
        with pytest.raises(PowerCut):
            room.locks.give_back(ENVIRONMENT, "a")
    assert events(room)[-1] == "unlocked"


def test_a_lock_that_could_not_be_written_down_is_not_left_as_held_in_the_log(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store, "write", fails)
    with pytest.raises(OSError, match="Input/output error"):
        room.take("a")
    assert events(room) == ["locked", "unlocked"]


def test_the_log_says_who_held_it_and_why(room: Room) -> None:
    room.take("a")
    room.take("a")
    room.let_the_lease_run_out()
    room.take("b")
    room.locks.give_back(ENVIRONMENT, "a")
    room.locks.give_back(ENVIRONMENT, "b")
    lines = [json.loads(line) for line in room.store.log_path.read_text().splitlines()]
    said = [(one["event"], one["holder"], one.get("who"), one.get("taken_over")) for one in lines]
    assert said == [
        ("locked", "a", "me", None),
        ("locked", "b", "me", "a"),
        ("unlocked", "b", None, None),
    ]
