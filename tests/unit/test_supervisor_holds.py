"""An environment on hold: until a time, or until somebody ends it."""

import json
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import holds
from blocks.supervisor.main import Supervisor
from blocks.supervisor.store import Store
from tests.unit.nowhere import Nowhere

ASKED = {"environment": "/opt/e", "who": "ann", "why": "a demo", "until": None}


def held(desk: Supervisor, environment: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = desk.answer("status", {"environment": environment})["hold"]
    return found


def test_it_holds_until_it_is_ended_and_the_log_says_by_whom(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    desk = Supervisor(Store(tmp_path / "state"), Nowhere())
    here = str(tmp_path / "e")
    asked = {**ASKED, "environment": here}
    desk.answer("keep", asked)
    found = held(desk, here)
    assert found is not None
    assert (found["who"], found["why"], found["until"]) == ("ann", "a demo", None)
    ended = {"environment": here, "who": "bob"}
    assert desk.answer("unkeep", ended)["hold"] == found
    assert held(desk, here) is None
    assert desk.answer("unkeep", ended) == {"hold": None}
    lines = (tmp_path / "state" / "operations.jsonl").read_text().splitlines()
    assert [(one["event"], one["who"]) for one in map(json.loads, lines)] == [
        ("kept", "ann"),
        ("unkept", "bob"),
    ]


def test_it_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Store(tmp_path)
    monkeypatch.setattr("time.time", lambda: 100.0)
    holds.keep(kept, {**ASKED, "until": 200.0})
    monkeypatch.setattr("time.time", lambda: 199.0)
    assert holds.now(tmp_path, "/opt/e") is not None
    monkeypatch.setattr("time.time", lambda: 200.0)
    assert holds.now(tmp_path, "/opt/e") is None
