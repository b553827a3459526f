"""The kernel's lines in a unit's journal: only those about it, only from its time, not too many."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor.journal import journal, last_lines
from blocks.supervisor.kernel_log import MOST, is_about
from tasks.diagnosis.finding import diagnose
from tasks.diagnosis.journal import from_supervisor
from tasks.diagnosis.symptoms import Death, Facts

UNIT = "vllm.service"
PROGRAM = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$@" >>calls
case "$*" in *_TRANSPORT=kernel*) cat kernel;; *) cat own;; esac
"""
KILLED = "Out of memory: Killed process 77 (VLLM::Worker_TP) total-vm:9kB, anon-rss:9kB"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "journalctl"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    write(tmp_path / "kernel", [])
    write(tmp_path / "own", [(100.0, "(Worker_TP0 pid=77) INFO: loading"), (110.0, "the end")])
    return tmp_path


def write(path: Path, lines: list[tuple[float, str]]) -> None:
    entries = [
        {"__REALTIME_TIMESTAMP": str(int(at * 1e6)), "MESSAGE": said, "SYSLOG_IDENTIFIER": who}
        for at, said in lines
        for who in ("kernel" if path.name == "kernel" else "vllm",)
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in entries))


def asked(**more: Any) -> dict[str, Any]:
    return {"unit": UNIT, "invocation": None, "since": None, "lines": 200, **more}


def test_they_stand_where_they_were_said_and_are_diagnosed(host: Path) -> None:
    write(host / "kernel", [(105.0, KILLED)])

    entries = journal(asked())["entries"]

    assert [entry["message"] for entry in entries][1] == KILLED
    found = diagnose(from_supervisor(entries), Facts(), Death(kind="crashed"))
    assert (found.rule, found.said) == ("host-out-of-memory", KILLED)


def test_only_the_units_own_time_is_asked_for(host: Path) -> None:
    journal(asked())
    journal(asked(since=90.0))
    _, first, _, second = (host / "calls").read_text().splitlines()

    assert "--since=@95.000000" in first
    assert "--until=@170.000000" in first
    assert "--since=@85.000000" in second


def test_there_are_never_too_many(host: Path) -> None:
    write(host / "kernel", [(101.0, f"NVRM: Xid (PCI:0000:{one}): 79") for one in range(3 * MOST)])

    assert len(journal(asked())["entries"]) == MOST + 2


def test_the_last_lines_of_a_service_are_its_own(host: Path) -> None:
    write(host / "kernel", [(120.0, KILLED)])

    assert last_lines(UNIT, "0" * 32, 5)[-1] == "the end"


def test_a_kernel_journal_that_cannot_be_read_is_left_out(host: Path) -> None:
    (host / "kernel").unlink()

    assert len(journal(asked())["entries"]) == 2


@pytest.mark.parametrize(
    ("message", "about"),
    [
        (KILLED, True),
        ("python3[77]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6", True),
        ("traps: pt_main_thread[77] general protection fault ip:7f sp:7f error:0", True),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/vllm.service,pid=9", True),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", True),
        ("nvme0n1: I/O error, dev nvme0n1, sector 9", True),
        ("Out of memory: Killed process 5077 (java) total-vm:9kB", False),
        ("java[5077]: segfault at 77 ip 00007f sp 00007f error 4", False),
        ("usb 1-1: new high-speed USB device number 77", False),
    ],
)
def test_what_is_about_a_unit(message: str, about: bool) -> None:
    assert is_about(message, UNIT, {77}) is about
