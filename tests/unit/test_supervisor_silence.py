"""A systemd that does not answer for a while fails no start, and none is waited for for ever."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import vigil, watch
from blocks.supervisor.arguments import DOING, checked
from blocks.supervisor.failures import Failure
from blocks.supervisor.journal import Follower
from blocks.supervisor.work import Work

INVOCATION = "0" * 32
STATE = f"""LoadState=loaded
ActiveState=active
SubState=running
Result=success
MainPID={{pid}}
InvocationID={INVOCATION}
NRestarts=0
"""
SYSTEMCTL = """#!/bin/sh
echo asked >>{folder}/asked
if [ -e {folder}/silent ] && [ "$(wc -l <{folder}/asked)" -gt "$(cat {folder}/silent)" ]; then
    echo "Failed to get properties: Connection timed out" >&2
    exit 1
fi
cat {folder}/state
"""


class Systemd:
    """A `systemctl` that tells what it is given, or fails; nothing is written to the journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name, text in (("systemctl", SYSTEMCTL), ("journalctl", "#!/bin/sh\nexec sleep 60\n")):
            program = folder / name
            program.write_text(text.format(folder=folder))
            program.chmod(0o755)
        self.says(os.getpid())

    def says(self, pid: int) -> None:
        (self._folder / "state").write_text(STATE.format(pid=pid))

    def is_silent(self, after: int = 0) -> None:
        """Answer no more, from a question on."""
        (self._folder / "silent").write_text(str(after))

    def speaks(self) -> None:
        (self._folder / "silent").unlink()

    @property
    def asked(self) -> int:
        return len((self._folder / "asked").read_text().splitlines())


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(vigil, "_BACKSTOP_SECONDS", 0.05)
    monkeypatch.setattr(vigil, "_ASK_AGAIN_SECONDS", (0.01, 0.1))
    return Systemd(tmp_path)


def held(folder: Path, seconds: float) -> dict[str, Any]:
    given = {
        "unit": "x.service",
        "invocation": INVOCATION,
        "started": time.time(),
        "port": 1,
        "deadline_seconds": 60,
        "seconds": seconds,
    }
    return watch.hold(checked("hold", given, DOING), Work(folder))


def test_a_question_without_an_answer_fails_nothing(systemd: Systemd, tmp_path: Path) -> None:
    systemd.is_silent(after=1)
    assert held(tmp_path, 1) == {"seconds": 1, "restarts": 0}
    assert systemd.asked > 3


def test_after_minutes_of_silence_it_is_given_up(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vigil, "_SILENCE_SECONDS", 0.5)
    systemd.is_silent(after=1)
    with pytest.raises(Failure, match=r"not told of x.service for \d+ s: .*timed out") as failed:
        held(tmp_path, 30)
    assert failed.value.kind == "no-systemd"
    assert failed.value.fields["unit"]["main_pid"] == os.getpid()


def test_the_first_answer_is_waited_for_but_not_for_ever(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vigil, "_SILENCE_SECONDS", 0.5)
    systemd.is_silent()
    with pytest.raises(Failure, match="not told of") as failed:
        held(tmp_path, 0)
    assert failed.value.kind == "no-systemd"
    assert systemd.asked > 3


def test_the_last_answer_is_not_believed_of_a_process_that_has_ended(
    systemd: Systemd,
) -> None:
    with subprocess.Popen(["sleep", "60"]) as running:
        pid = running.pid
        systemd.says(pid)
        follower = Follower("x.service", INVOCATION, time.time())
        watched = vigil.Vigil("x.service", follower, lambda _: None)
        assert watched.state()["main_pid"] == pid
        systemd.is_silent()
        watched.ask_now()
        assert watched.state()["main_pid"] == pid
        assert watched.is_sure()
        running.kill()
    assert not watched.is_sure()
    systemd.speaks()
    watched.ask_now()
    watched.state()
    assert watched.is_sure()
    watched.close()


def test_a_hold_ends_in_time(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_TICK_SECONDS", 5)
    monkeypatch.setattr(vigil, "_BACKSTOP_SECONDS", 60)
    began = time.monotonic()
    held(tmp_path, 0.5)
    assert 0.5 <= time.monotonic() - began < 3
    assert systemd.asked
