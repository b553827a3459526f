"""Secrets pass through memory, to root alone, and once."""

import stat
from pathlib import Path

import pytest

from blocks.supervisor.handover import Handover

KEY = {"OPENAI_API_KEY": "é'\"$x"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_what_was_put_is_taken_once(root: Path) -> None:
    Handover(root).put("r/a", KEY)
    assert Handover(root).take("r/a") == KEY
    assert list(root.iterdir()) == []
    assert Handover(root).take("r/a") == {}


def test_only_its_owner_may_look(root: Path) -> None:
    Handover(root).put("r/a", KEY)
    (path,) = root.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_nothing_of_an_earlier_run_is_left(root: Path) -> None:
    handover = Handover(root)
    handover.put("r/a", KEY)
    handover.put("r/a", {"HF_TOKEN": "b"})
    assert handover.take("r/a") == {"HF_TOKEN": "b"}
    handover.put("r/a", KEY)
    handover.put("r/a", {})
    assert handover.take("r/a") == {}


def test_without_secrets_nothing_is_made(root: Path) -> None:
    Handover(root).put("r/a", {})
    assert Handover(root).take("r/a") == {}
    assert not root.exists()
