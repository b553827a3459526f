"""The guard's unit is written whole, as systemd reads it, and is there whenever it is needed."""

import os
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import guard_unit, opening, processes, scope, store, transactions
from blocks.supervisor.failures import Failure, Refusal
from blocks.supervisor.processes import Ended
from blocks.supervisor.work import Work

ODD = ("/opt/my py%", '/x/$a "b" \\c 100%', "guard", "k")


class Systemd:
    """Takes what it is told, or refuses."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.exit = 0

    def run(self, argv: tuple[str, ...], **_: Any) -> Ended:
        self.told.append(argv[1])
        return Ended(self.exit, "", "Access denied\n")


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    systemd = Systemd()
    chosen = scope.now()._replace(state=tmp_path / "state", units=tmp_path / "units")
    monkeypatch.setattr(scope, "_chosen", chosen)
    monkeypatch.setattr(processes, "run", systemd.run)
    return systemd


def unit_of(key: str) -> Path:
    return scope.now().units / guard_unit.name_of(key)


def test_a_command_of_odd_words_is_one_that_systemd_reads_as_it_is(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "again", lambda *_: ODD)
    guard_unit.install("k", "/opt/100%/env")
    lines = unit_of("k").read_text().splitlines()
    assert r'ExecStart="/opt/my py%%" "/x/$$a \"b\" \\c 100%%" "guard" "k"' in lines
    assert "Description=Ends a redeploy of /opt/100%%/env that fell silent" in lines
    assert systemd.told == ["daemon-reload", "enable"]


def test_a_unit_that_could_not_be_written_whole_leaves_the_one_before(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard_unit.install("k", "/opt/env")
    before = unit_of("k").read_text()

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(Failure, match="Input/output error") as failed:
        guard_unit.install("k", "/opt/other")
    assert failed.value.kind == "no-guard"
    assert [one.read_text() for one in scope.now().units.iterdir()] == [before]
    assert len(systemd.told) == 2


def test_a_systemd_that_refuses_is_a_failure_of_open_and_a_refusal_of_a_stop(
    systemd: Systemd,
) -> None:
    systemd.exit = 1
    with pytest.raises(Failure, match="Access denied"):
        guard_unit.install("k", "/opt/env")
    with pytest.raises(Refusal, match="Access denied"):
        guard_unit.stand("k")


def test_one_that_was_opened_and_never_guarded_is_guarded_by_who_comes_next(
    systemd: Systemd, tmp_path: Path
) -> None:
    environment = tmp_path / "env"
    environment.mkdir()
    path = transactions.path_of(tmp_path, str(environment))
    store.write(path, {"holder": "killed", "environment": str(environment)})
    with pytest.raises(Failure) as failed:
        opening.open_transaction(
            {"environment": str(environment), "back_to": None},
            Work(tmp_path / "work", root=tmp_path, holder="next"),
        )
    assert failed.value.kind == "unfinished"
    assert unit_of(store.key_of(str(environment))).exists()
    assert systemd.told == ["daemon-reload", "enable"]
