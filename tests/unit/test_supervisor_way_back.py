"""The way back finds the old environment wherever a switch was, and nothing goes against it."""

from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import switch as module
from blocks.supervisor import transactions
from blocks.supervisor.failures import Failure, Refusal
from blocks.supervisor.ledger import FOUND, LIVE, PREVIOUS, STAGED, Ledger
from blocks.supervisor.main import Supervisor
from blocks.supervisor.store import Store, key_of, write
from blocks.supervisor.switch import Paths, bring_back
from tests.unit.nowhere import Nowhere


class Site:
    """An old and a new environment, at some of their places."""

    def __init__(self, root: Path, **lies: str) -> None:
        self.paths = Paths(root / "env", root / "env.new", root / "env.previous")
        self.rejected = root / "env.rejected"
        for place, name in lies.items():
            folder = self._at(place)
            folder.mkdir()
            (folder / "name").write_text(name)
        old = next(self._at(place) for place, name in lies.items() if name == "old")
        self.old = old.stat().st_ino

    def _at(self, place: str) -> Path:
        return self.rejected if place == "rejected" else getattr(self.paths, place)

    def bring_back(self) -> None:
        bring_back(self.paths, self.old, self.rejected)

    def here(self) -> list[str | None]:
        found = [path / "name" for path in (*self.paths, self.rejected)]
        return [one.read_text() if one.exists() else None for one in found]


BACK = ["old", None, None, "new"]


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize(
    "lies",
    [
        {"live": "old", "sibling": "new"},
        {"live": "new", "sibling": "old"},
        {"live": "new", "previous": "old"},
        {"sibling": "new", "previous": "old"},
        {"previous": "old", "rejected": "new"},
        {"live": "old", "previous": "new"},
        {"live": "old", "rejected": "new"},
    ],
)
def test_the_old_one_lies_at_its_path_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lies: dict[str, str], exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(module, "_RENAME_EXCHANGE", 1 << 20)  # no kernel knows this flag
    site = Site(tmp_path, **lies)
    site.bring_back()
    assert site.here() == BACK
    site.bring_back()
    assert site.here() == BACK


def test_an_old_one_that_is_gone_is_said_and_nothing_is_moved(tmp_path: Path) -> None:
    site = Site(tmp_path, live="new", previous="old")
    site.old = -1
    with pytest.raises(Failure) as failed:
        site.bring_back()
    assert failed.value.kind == "old-gone"
    assert site.here() == ["new", None, "old", None]


def test_a_folder_is_known_by_what_it_is_and_not_by_its_name(tmp_path: Path) -> None:
    live, new, previous = (tmp_path / name for name in ("env", "env.new", "env.previous"))
    live.mkdir()
    new.mkdir()
    ledger = Ledger(tmp_path / "state", str(live))
    ledger.becomes(live, LIVE)
    ledger.enter(new, "r", STAGED)
    live.rename(previous)
    new.rename(live)
    ledger.becomes(live, LIVE)
    ledger.becomes(previous, PREVIOUS)
    assert {Path(one["path"]).name: (one["release"], one["state"]) for one in ledger.look()} == {
        "env": ("r", LIVE),
        "env.previous": (FOUND, PREVIOUS),
    }


def begin(root: Path, verb: str, *done: tuple[str, str, str]) -> None:
    asked = {"environment": "/opt/env", "holder": "r", "verb": verb}
    known: list[dict[str, Any]] = [
        {"operation": name, "verb": one, "state": state} for name, one, state in done
    ]
    with transactions.gate(root, asked, lambda _: known):
        pass


OPEN = ("r/open", "open", "succeeded")


@pytest.mark.parametrize(
    ("done", "kind"),
    [
        ([("r/revert", "revert", "running")], "goes-back"),
        ([("r/revert", "revert", "failed")], "goes-back"),
        ([("r/record", "record", "succeeded")], "has-ended"),
        ([OPEN], "given-up"),
        ([("r/discard", "discard", "running")], "given-up"),
    ],
)
def test_nothing_begins_against_the_way_back(
    tmp_path: Path, done: list[tuple[str, str, str]], kind: str
) -> None:
    for verb in ("stop", "switch", "start", "watch", "install"):
        with pytest.raises(Refusal) as refused:
            begin(tmp_path, verb, *done)
        assert refused.value.kind == kind
    for verb in ("revert", "remember", "record", "facts", "journal"):
        begin(tmp_path, verb, *done)


def test_what_was_stopped_is_not_given_up(tmp_path: Path) -> None:
    begin(tmp_path, "discard", OPEN)
    with pytest.raises(Refusal) as refused:
        begin(tmp_path, "discard", OPEN, ("r/attempt-1/start", "swap", "running"))
    assert refused.value.kind == "has-stopped"


def test_what_is_under_way_goes_on(tmp_path: Path) -> None:
    begin(tmp_path, "stop")
    key = key_of("/opt/env")
    write(tmp_path / "open" / f"{key}.json", {"holder": "r"})
    begin(tmp_path, "switch", OPEN)


def test_for_a_new_environment_that_is_gone_nothing_is_stopped(tmp_path: Path) -> None:
    desk = Supervisor(Store(tmp_path / "state"), Nowhere())
    environment, sibling = str(tmp_path / "env"), tmp_path / "env.new"
    why = {"who": "me", "why": "test", "lease_seconds": 60}
    desk.answer("lock", {"environment": environment, "holder": "a", **why})
    arguments = {
        "unit": "vllm.service",
        "baseline": {},
        "gpu_wait_seconds": 1,
        "tolerance_bytes": 0,
        "port": 8000,
        "environment": environment,
        "sibling": str(sibling),
        "previous": f"{environment}.previous",
    }
    swap = {"operation": "a/start", "verb": "swap", "holder": "a", "environment": environment}
    asked = {**swap, "arguments": arguments, "wait_seconds": 0}
    with pytest.raises(Refusal, match="The service was not stopped") as refused:
        desk.answer("ensure", asked)
    assert refused.value.kind == "nothing-staged"
    assert desk.operations.under("a") == []
    sibling.mkdir()
    desk.answer("ensure", asked)
    sibling.rename(environment)  # by the switch: who asks again is not refused
    assert desk.answer("ensure", asked)["state"] == "running"
