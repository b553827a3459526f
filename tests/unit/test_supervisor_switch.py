"""At every moment each environment lies at one of the three places."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import switch as module
from blocks.supervisor.failures import Failure
from blocks.supervisor.switch import switch
from blocks.supervisor.work import Work


class Places:
    """An old and a new environment on a real file system."""

    def __init__(self, root: Path) -> None:
        self.live, self.sibling = root / "env", root / "env.new"
        self.previous = root / "env.previous"
        self.work = Work(root / ".operation")
        self.unit: str | None = None
        for path, name in ((self.live, "old"), (self.sibling, "new")):
            path.mkdir()
            (path / "name").write_text(name)

    def switch(self) -> dict[str, Any]:
        asked = {"environment": self.live, "sibling": self.sibling, "previous": self.previous}
        paths = {key: str(path) for key, path in asked.items()}
        return switch({**paths, "unit": self.unit}, self.work)

    def here(self) -> list[str | None]:
        paths = (self.live, self.sibling, self.previous)
        return [(one / "name").read_text() if (one / "name").exists() else None for one in paths]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def killed_after(places: Places, monkeypatch: pytest.MonkeyPatch, renames: int) -> None:
    """Run the switch and have it killed after some renames."""
    real, left = module._renameat2, [renames]

    def counted(*arguments: Any) -> None:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_renameat2", counted)
        with pytest.raises(KeyboardInterrupt):
            places.switch()


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer as NFS does, which cannot exchange."""
    real = module._renameat2

    def refusing(source: Path, target: Path, flags: int) -> None:
        if flags == module._RENAME_EXCHANGE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(source, target, flags)

    monkeypatch.setattr(module, "_renameat2", refusing)


def test_the_folders_are_exchanged_at_once(places: Places) -> None:
    inode = places.sibling.stat().st_ino
    done = places.switch()
    assert places.here() == ["new", None, "old"]
    assert (done["how"], done["live"]["inode"]) == ("exchange", inode)


def test_a_second_run_changes_nothing(places: Places) -> None:
    first = places.switch()
    assert places.switch() == first
    assert places.here() == ["new", None, "old"]


@pytest.mark.parametrize("renames", [0, 1])
def test_a_killed_switch_is_finished_by_the_next(
    places: Places, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    killed_after(places, monkeypatch, renames)
    assert places.switch()["how"] == "exchange"
    assert places.here() == ["new", None, "old"]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_where_the_file_system_cannot_exchange_it_takes_two_steps(
    places: Places, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    without_exchange(monkeypatch)
    if renames < 2:
        killed_after(places, monkeypatch, renames)
    assert places.switch()["how"] == "two-step"
    assert places.here() == ["new", None, "old"]


def test_back_is_the_same_path_the_other_way(places: Places) -> None:
    places.switch()
    places.sibling, places.previous = places.previous, places.live.with_name("env.rejected")
    places.work = Work(places.live.with_name(".back"))
    places.switch()
    assert places.here() == ["old", None, "new"]


def test_an_occupied_place_is_refused_before_anything_moves(places: Places) -> None:
    places.previous.mkdir()
    with pytest.raises(Failure) as failed:
        places.switch()
    assert (failed.value.kind, failed.value.fields["live"]) == ("previous-exists", "old")
    assert places.here() == ["old", "new", None]


def test_a_missing_sibling_is_refused(places: Places) -> None:
    places.sibling.rename(places.sibling.with_name("away"))
    with pytest.raises(Failure) as failed:
        places.switch()
    assert (failed.value.kind, failed.value.fields["live"]) == ("no-environment", "old")


def test_folders_that_somebody_moved_are_left_alone(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after(places, monkeypatch, 0)
    places.live.rename(places.live.with_name("env.elsewhere"))
    with pytest.raises(Failure) as failed:
        places.switch()
    assert (failed.value.kind, failed.value.fields["live"]) == ("unclear", "unclear")
    assert places.here() == [None, "new", None]


def refusing_to_move(
    places: Places, monkeypatch: pytest.MonkeyPatch, *moves: tuple[str, str]
) -> None:
    """Have the file system refuse some moves, each from one of the places to another."""
    real = module._renameat2

    def refusing(source: Path, target: Path, flags: int) -> None:
        here = {places.live: "live", places.sibling: "sibling", places.previous: "previous"}
        if (here[source], here[target]) in moves:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target, flags)

    monkeypatch.setattr(module, "_renameat2", refusing)


@pytest.mark.parametrize(
    ("exchanges", "moves", "live", "here"),
    [
        (True, [("sibling", "live")], "old", ["old", "new", None]),
        (True, [("sibling", "previous")], "new", ["new", "old", None]),
        (False, [("live", "previous")], "old", ["old", "new", None]),
        (False, [("sibling", "live")], "old", ["old", "new", None]),
        (False, [("sibling", "live"), ("previous", "live")], "unclear", [None, "new", "old"]),
    ],
)
def test_a_failure_says_which_environment_lies_at_the_path_now(
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    exchanges: bool,
    moves: list[tuple[str, str]],
    live: str,
    here: list[str | None],
) -> None:
    refusing_to_move(places, monkeypatch, *moves)
    if not exchanges:
        without_exchange(monkeypatch)
    with pytest.raises(Failure) as failed:
        places.switch()
    assert places.here() == here
    assert (failed.value.kind, failed.value.fields["live"]) == ("not-switched", live)
    said = {"old": "the old environment", "new": "the new environment", None: "nothing"}
    for path, what in zip((places.live, places.sibling, places.previous), here, strict=True):
        assert f"at {path} lies {said[what]}" in failed.value.message
        assert failed.value.fields["places"][str(path)] == (what or "nothing")


def test_a_full_disk_after_the_exchange_is_a_failure_on_the_new_environment(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = places.work.note

    def full(name: str, document: dict[str, Any]) -> None:
        if "how" in document:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(name, document)

    monkeypatch.setattr(places.work, "note", full)
    with pytest.raises(Failure) as failed:
        places.switch()
    assert (failed.value.kind, failed.value.fields["live"]) == ("not-switched", "new")
    assert places.here() == ["new", "old", None]


def test_a_unit_that_cannot_be_stopped_leaves_the_old_environment(places: Places) -> None:
    places.unit = "nowhere.service"
    with pytest.raises(Failure) as failed:
        places.switch()
    assert failed.value.kind in ("no-such-unit", "no-systemd")
    assert failed.value.fields["live"] == "old"
    assert places.here() == ["old", "new", None]


def test_a_link_in_the_environments_place_is_unclear(places: Places) -> None:
    places.live.rename(places.live.with_name("away"))
    places.live.symlink_to(places.live.with_name("away"))
    with pytest.raises(Failure) as failed:
        places.switch()
    assert (failed.value.kind, failed.value.fields["live"]) == ("no-environment", "unclear")
