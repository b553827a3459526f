"""The end of a process is known at once, with a pidfd and without."""

import os
import select
import subprocess
import sys
import time

import pytest

from blocks.supervisor.ends import End, Ends
from blocks.supervisor.pidfd import Process


def process() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_process_that_ends_wakes_who_waits_for_it() -> None:
    running = process()
    watched = Process(running.pid)
    assert not watched.look()
    assert len(watched.descriptors) == 1
    running.kill()
    began = time.monotonic()
    select.select(watched.descriptors, [], [], 5)
    assert time.monotonic() - began < 1
    assert watched.look()
    assert watched.ended
    assert (watched.descriptors, watched.look()) == ([], False)
    running.wait()
    watched.close()


def test_without_pidfd_the_kernel_is_asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    running = process()
    watched = Process(running.pid)
    assert (watched.descriptors, watched.longest_wait) == ([], 0.25)
    assert not watched.look()
    running.kill()
    running.wait()
    assert watched.look()


def test_one_that_is_gone_already_has_ended() -> None:
    running = process()
    running.kill()
    running.wait()
    assert Process(running.pid).ended
    nobody = Process(None)
    assert (nobody.look(), nobody.descriptors) == (False, [])


EXIT = "98e322203f7a4ed290d09fe03c09fe15"
FAILED = "d9b373ed55a64feb8242e02dbe79a49c"


def test_ends_are_told_apart_by_invocation_and_only_systemd_tells_them() -> None:
    ends = Ends()
    for time_, message, invocation, pid in (
        (1.0, EXIT, "i", 1),
        (1.1, FAILED, "i", 1),
        (2.0, EXIT, "j", 7),
        (3.0, EXIT, "j", 1),
        (3.1, "other", "j", 1),
    ):
        ends.take({"time": time_, "message_id": message, "invocation": invocation, "pid": pid})
    assert ends.after(0) == End(1.0, over=1.1, clean=False)
    assert ends.after(1) == End(3.0)
    assert ends.after(2) == End()
