"""What a person at the host's own command line is told."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import by_hand, main, scope, store
from blocks.supervisor.failures import Refusal
from blocks.supervisor.ledger import LIVE, PREVIOUS, Ledger


class Closed:
    """Standard input that nobody writes to: who reads it hangs, here as a failure."""

    @property
    def buffer(self) -> None:
        raise AssertionError("standard input was read")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of a host on which two services were redeployed."""
    monkeypatch.setattr(os, "umask", lambda mask: mask)  # it is of all tests in this process
    monkeypatch.setattr(scope, "choose", lambda words: words)
    monkeypatch.setattr(scope, "_chosen", scope.now()._replace(state=tmp_path))
    monkeypatch.setattr(sys, "stdin", Closed())
    for name in ("a", "b"):
        known = {"unit": f"{name}.service", "environment": f"/opt/{name}", "record": {}}
        store.write(tmp_path / "last" / f"{name}.json", known)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        ((), "usage", "redeploy-supervisor rollback [UNIT]"),
        (("statsu",), "unknown-verb", "recorded, rollback, status"),
        (("rolback", "a.service"), "unknown-verb", "recorded, rollback, status"),
        (("status", "a.service"), "usage", "'a.service' is one"),
    ],
)
def test_a_mistyped_call_is_answered_before_anything_is_read(
    host: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    kind: str,
    said: str,
) -> None:
    assert main.main(list(words)) == main.REFUSED_EXIT
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == kind
    assert said in f"{error['message']} {error['hint']}"
    assert not (host / "operations.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "One service is to be named"),
        (("a", "b"), "One service is to be named"),
        (("a.service", "now"), "One service is to be named"),
        (("c",), "Nothing that was ever redeployed here is called 'c'"),
    ],
)
@pytest.mark.usefixtures("host")
def test_a_rollback_of_none_or_several_or_an_unknown_one_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert main.main(["rollback", *words]) == main.REFUSED_EXIT
    told = capsys.readouterr().err
    assert told.startswith(f"{said}; known here: a.service (/opt/a), b.service (/opt/b). ")


@pytest.mark.parametrize("word", ["a", "a.service", "/opt/a"])
def test_a_service_is_named_by_its_unit_or_its_environment(host: Path, word: str) -> None:
    with pytest.raises(Refusal, match="no release beside /opt/a to go back to"):
        by_hand.roll_back(host, [word], lambda *_: {})


@pytest.mark.parametrize(
    ("sudo_user", "user", "who"),
    [("eve", None, "eve"), (None, "vllm", "vllm"), (None, None, "root")],
)
def test_who_goes_back_by_hand_is_written_down(
    host: Path,
    monkeypatch: pytest.MonkeyPatch,
    sudo_user: str | None,
    user: str | None,
    who: str,
) -> None:
    environment = host / "env"
    for folder, state in ((environment, LIVE), (host / "env.previous-1", PREVIOUS)):
        folder.mkdir()
        Ledger(host, str(environment)).becomes(folder, state)
    known = {"unit": "env.service", "environment": str(environment), "record": {}}
    store.write(host / "last" / "env.json", known)
    monkeypatch.setattr(scope, "_chosen", scope.now()._replace(user=user))
    monkeypatch.delenv("SUDO_USER", raising=False)
    if sudo_user:
        monkeypatch.setenv("SUDO_USER", sudo_user)
    asked: list[dict[str, Any]] = []

    def ask(verb: str, request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        raise Refusal("locked", f"{verb} is refused.")

    with pytest.raises(Refusal, match="lock is refused"):
        by_hand.roll_back(host, ["env"], ask)
    assert asked[0]["who"] == f"{who} on the host"
