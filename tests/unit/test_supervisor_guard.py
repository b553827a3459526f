"""A guard acts on what it sees at that moment, tells how it ended, and takes itself away."""

import time
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import guard as module
from blocks.supervisor import guard_unit, store, transactions, units
from blocks.supervisor.failures import Failure
from blocks.supervisor.guard import Guard
from blocks.supervisor.locks import Locks
from blocks.supervisor.store import Store

ENVIRONMENT, HOLDER = "/opt/vllm/env", "r"
KEY = store.key_of(ENVIRONMENT)
UNDERTAKEN = {
    "environment": ENVIRONMENT,
    "holder": HOLDER,
    "unit": "v.service",
    "port": 8000,
    "sibling": f"{ENVIRONMENT}.new",
    "grace_seconds": 60.0,
    "ready_patience_seconds": 7.0,
    "back_to": None,
    "record": {"before": "1.0", "after": "2.0"},
}


class Desk:
    """Operations that are done as soon as they are asked for, and remembered in order."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.errors: dict[str, str] = {}

    def add(self, name: str, verb: str) -> None:
        now = time.time()
        state = "failed" if verb in self.errors else "succeeded"
        operation = f"{HOLDER}/{name}"
        summary = {"operation": operation, "verb": verb, "state": state}
        self.done.append({**summary, "started": now, "finished": now})

    def under(self, prefix: str) -> list[dict[str, Any]]:
        assert prefix == HOLDER
        return list(self.done)

    def answer(self, name: str) -> dict[str, Any]:
        verb = next(one["verb"] for one in self.done if one["operation"] == name)
        error = self.errors.get(verb)
        result = {"address": "::1", "invocation": "i", "restarts": 0}
        return {"result": result, "error": error and {"message": error}}

    def ensure(self, asked: dict[str, Any], tell: object) -> None:
        del tell
        self.asked.append(asked)
        self.add(asked["operation"].partition("/")[2], asked["verb"])

    @property
    def verbs(self) -> list[str]:
        return [one["verb"] for one in self.asked]

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.asked[-1]["arguments"]["record"]
        return found

    @property
    def verdict(self) -> str:
        return str(self.record["verdict"])


class Site:
    """A redeploy that has started its new release, and whose flow has fallen silent."""

    def __init__(self, root: Path) -> None:
        self.store, self.desk = Store(root), Desk()
        self.locks = Locks(self.store, lambda _: False, lambda _: True)
        self.removed: list[str] = []
        asked = {"environment": ENVIRONMENT, "holder": HOLDER, "who": "me", "why": "test"}
        self.locks.take({**asked, "lease_seconds": 900})
        store.write(transactions.path_of(root, ENVIRONMENT), UNDERTAKEN)
        self.desk.add("attempt-1/start", "swap")
        self.desk.add("attempt-1/wait-healthy", "watch")

    def stand(self) -> None:
        Guard(self.store, self.desk, self.locks, KEY).stand()  # type: ignore[arg-type]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    state = {"load_state": "loaded", "n_restarts": 0, "invocation_id": "i"}
    running = {"active_state": "active", "sub_state": "running", "main_pid": 1}
    monkeypatch.setattr(units, "state", lambda _: {**state, **running})
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(guard_unit, "remove", site.removed.append)
    return site


def test_one_that_serves_is_kept_and_asked_as_patiently_as_the_flow_asks(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(module, "smoke", lambda *given: asked.append(given))
    site.stand()
    assert asked == [("::1", 8000, "2.0", 7.0)]
    assert site.desk.verbs == ["record"]
    assert site.desk.verdict == (
        "Serving 2.0. The host has ended this redeploy by itself: nothing was heard of it for 60 s."
    )
    assert site.desk.record["attempts"] == [{"number": 1, "outcome": "healthy"}]


def test_a_flow_that_came_back_while_the_service_was_asked_is_left_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comes_back(*_: object) -> None:
        site.desk.add("record", "record")

    monkeypatch.setattr(module, "smoke", comes_back)
    site.stand()
    assert site.desk.verbs == []
    assert site.locks.all() == []


def test_a_way_back_that_failed_is_recorded_with_what_to_try(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serves_not(*_: object) -> None:
        raise Failure("not-ready", "It does not serve.")

    monkeypatch.setattr(module, "smoke", serves_not)
    site.desk.errors["revert"] = "It crashed."
    site.desk.add("draining-1", "remember")
    site.stand()
    assert site.desk.verbs == ["revert", "record"]
    began, _, rest = site.desk.verdict.partition(" UTC. ")
    assert began.startswith("DOWN since ")
    assert rest == (
        "Nothing was heard of it for 60 s, and the way back failed: It crashed. "
        "STILL DRAINED until it is gone on with (redeploy resume r). "
        "Try: systemctl restart v.service"
    )


def test_a_unit_that_outlived_its_redeploy_is_taken_away(site: Site) -> None:
    transactions.path_of(site.store.root, ENVIRONMENT).unlink()
    site.stand()
    assert site.removed == [KEY]
    assert site.desk.verbs == []


def test_what_a_rollback_was_to_go_to_is_told_in_sentences(site: Site) -> None:
    back = {**UNDERTAKEN, "back_to": f"{ENVIRONMENT}.previous"}
    store.write(transactions.path_of(site.store.root, ENVIRONMENT), back)
    site.desk.add("revert", "revert")
    site.stand()
    assert site.desk.verdict == "Rolled back to 2.0; serving. Nothing was heard of it for 60 s."
