"""Journal entries as text, whatever a service wrote."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.supervisor.journal import LONGEST_ENTRY, Follower, matches, message_text, parse


def test_lists_of_bytes_become_clean_text() -> None:
    raw = "\r\x1b[32mLoading: 50%\x1b[0m é".encode()
    assert message_text(list(raw)) == "Loading: 50% é"


def test_what_a_terminal_would_obey_is_taken_out() -> None:
    assert message_text("a\x1b]0;title\x07b\x1b[2Jc\x00d\x07") == "abcd"


def test_odd_messages_are_text_too() -> None:
    assert message_text(None) == ""
    assert message_text(["first", "second"]) == "first\nsecond"
    assert message_text([72, 105, 999, "x"]) == "Hi"
    assert len(message_text("x" * 100_000)) == 16384


def test_an_entry_of_systemd_belongs_to_the_unit_it_is_about() -> None:
    raw = {
        "__REALTIME_TIMESTAMP": "1500000",
        "__CURSOR": "s=1",
        "_PID": "1",
        "_COMM": "systemd",
        "UNIT": "vllm.service",
        "_SYSTEMD_UNIT": "init.scope",
        "INVOCATION_ID": "i",
        "PRIORITY": "6",
        "MESSAGE": "Started.",
    }
    entry = parse(json.dumps(raw))
    assert entry is not None
    assert (entry["time"], entry["unit"], entry["invocation"]) == (1.5, "vllm.service", "i")
    assert (entry["pid"], entry["priority"], entry["cursor"]) == (1, 6, "s=1")


def test_what_is_no_entry_is_passed_over() -> None:
    assert parse("-- Journal begins --") is None
    assert parse("[]") is None
    assert parse(b"\xff") is None


def test_only_systemd_itself_speaks_about_a_unit() -> None:
    assert matches("a.service", None) == (
        "_SYSTEMD_UNIT=a.service",
        "+",
        "_PID=1",
        "UNIT=a.service",
    )


JOURNALCTL = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$@" >>calls
cat output
[ -e stay ] && exec sleep 60
"""


class Journalctl:
    """A program of that name that says what it is told to say, and then ends or stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "journalctl"
        program.write_text(JOURNALCTL)
        program.chmod(0o755)

    def says(self, *messages: str, stays: bool) -> None:
        entries = [
            {
                "__REALTIME_TIMESTAMP": "1",
                "__CURSOR": f"s={one}",
                "MESSAGE": one,
                "INVOCATION_ID": one.rpartition("@")[2] if "@" in one else None,
            }
            for one in messages
        ]
        (self.folder / "output").write_text("".join(f"{json.dumps(one)}\n" for one in entries))
        (self.folder / "stay").unlink(missing_ok=True)
        if stays:
            (self.folder / "stay").touch()

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journalctl:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Journalctl(tmp_path)


@pytest.fixture
def follower(journalctl: Journalctl) -> Iterator[Follower]:
    journalctl.says(stays=False)
    following = Follower("a.service", "0" * 32, 0.0)
    yield following
    following.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def heard(follower: Follower, seconds: float = 20, at_least: int = 1) -> list[str]:
    """Return what comes within some seconds, as soon as so many lines have."""
    found: list[str] = []
    end = time.monotonic() + seconds
    while len(found) < at_least and (left := end - time.monotonic()) > 0:
        found += [entry["message"] for entry in follower.lines(left)]
    return found


def test_a_journalctl_that_ends_is_replaced_after_a_pause_and_nothing_leaks(
    journalctl: Journalctl, follower: Follower
) -> None:
    open_before, spent_before = open_files(), time.process_time()
    journalctl.says("first", "second", stays=False)
    assert heard(follower, at_least=2) == ["first", "second"]
    journalctl.says(stays=False)
    heard(follower, 2.5)
    assert 2 <= len(journalctl.calls) <= 4
    assert "--after-cursor=s=second" in journalctl.calls[-1]
    assert time.process_time() - spent_before < 0.5
    journalctl.says("third", stays=True)
    assert heard(follower) == ["third"]
    follower.close()
    assert open_files() == open_before


def test_an_entry_without_end_is_passed_over(journalctl: Journalctl, follower: Follower) -> None:
    journalctl.says("x" * (LONGEST_ENTRY + (2 << 20)), "next", stays=True)
    assert heard(follower) == ["next"]


@pytest.mark.parametrize(
    ("later", "of"), [(False, ["b@i2", "none"]), (True, ["b@i2", "none", "c@i3"])]
)
def test_the_invocations_that_come_later_are_followed_if_wanted(
    journalctl: Journalctl, later: bool, of: list[str]
) -> None:
    journalctl.says("a@i1", "b@i2", "none", "c@i3", stays=True)
    following = Follower("a.service", "i2", 0.0, later=later)
    assert heard(following, at_least=len(of)) == of
    assert heard(following, 0.3) == []
    following.close()


def test_something_else_can_end_the_wait_for_a_line(
    journalctl: Journalctl, follower: Follower
) -> None:
    journalctl.says("first", stays=True)
    assert heard(follower) == ["first"]
    reading, writing = os.pipe()
    os.write(writing, b"x")
    began = time.monotonic()
    assert list(follower.lines(5, [reading])) == []
    assert time.monotonic() - began < 1
    os.close(reading)
    os.close(writing)
