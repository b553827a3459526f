"""The door to a real host: programs and files go through it whole, or it says why not."""

import json
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from blocks import supervisor_client
from blocks.errors import (
    AuthenticationRefused,
    CommandFailed,
    HostError,
    HostKeyRejected,
    HostUnreachable,
)
from blocks.host import Host
from blocks.supervisor_client import PATH, Supervisor
from deployments.sandbox import hosts
from tests.integration.polling import until
from tests.integration.supervisor.bench import NAME, Bench, another_version, patient

pytestmark = pytest.mark.host


def test_it_is_put_there_once(host: Host) -> None:
    supervisor = Supervisor(host)
    before = host.run(["stat", "-c", "%i %a %U", PATH]).stdout
    version = supervisor.install()
    assert host.run(["stat", "-c", "%i %a %U", PATH]).stdout == before
    assert before.split()[1:] == ["755", "root"]
    host.put(b"#!/bin/sh\necho '{}'\n", PATH, 0o755)
    assert supervisor.install() == version
    assert supervisor.call("version", {})["version"] == version
    assert host.run(["sh", "-c", f"ls {PATH}*"]).stdout.split() == [PATH]


def test_two_writers_of_a_file_do_not_meet_and_leave_nothing_behind(host: Host) -> None:
    written = [bytes([65 + number]) * 3_000_000 for number in range(4)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: host.put(one, "/opt/put"), written))
    assert host.run(["cat", "/opt/put"]).stdout.encode() in written
    with pytest.raises(CommandFailed):
        host.put(b"", "/opt")
    assert host.run(["sh", "-c", "ls -d /opt.* /opt/put*"]).stdout.split() == ["/opt/put"]


def test_a_file_whose_link_was_lost_is_written_again_and_nothing_lies_beside(host: Host) -> None:
    size = 100_000_000
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(host.put, b"x" * size, "/opt/large")
        until(
            lambda: host.run(["sh", "-c", "stat -c %s /opt/large.* | grep -v '^0$'"]).stdout,
            "a part of the file",
            10,
            pause=0.01,
        )
        host.close()
        assert not writing.done()
    writing.result()
    lying = host.run(["sh", "-c", "stat -c '%n %s' /opt/large*"]).stdout
    assert lying == f"/opt/large {size}\n"


def test_another_version_is_not_put_under_a_running_operation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, other = bench.supervisor.install(), another_version()
    monkeypatch.setattr(supervisor_client, "archive", lambda: other)
    asked = bench.watching(bench.launch("hang"), 4)
    caller = threading.Thread(target=lambda: bench.do("watch", "watch", **asked))
    caller.start()
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 10)
    said: list[str] = []
    assert bench.supervisor.install(said.append) == before
    assert f"{bench.id}/watch runs" in said[0]
    caller.join()
    assert bench.supervisor.install(said.append) == other.version != before
    assert len(said) == 1
    monkeypatch.undo()
    assert bench.supervisor.install(said.append) == before


def test_arguments_reach_the_program_as_they_are(host: Host) -> None:
    odd = ["a b", "$HOME", ";reboot", "'", '"', "`id`", "\n", "*", ""]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert json.loads(host.run(["python3", "-c", code, *odd]).check().stdout) == odd
    assert host.run(["cat"], input="é" * 200_000).stdout == "é" * 200_000


def test_exits_signals_and_time_outs_are_told_apart(host: Host) -> None:
    assert host.run(["sh", "-c", "echo out; echo err >&2; exit 3"]).exit == 3
    assert host.run(["sh", "-c", "kill -9 $$"]).exit == -1
    began = time.monotonic()
    with pytest.raises(CommandFailed, match="had not ended after 1 s"):
        host.run(["sleep", "20"], timeout=1)
    assert time.monotonic() - began < 5


def test_a_time_out_is_one_also_when_the_timers_thread_lives_a_moment_longer(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("invoke.runners.Runner.timed_out", False)
    with pytest.raises(CommandFailed, match="had not ended after 1 s"):
        host.run(["sleep", "20"], timeout=1)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"known_hosts": "/dev/null"}, HostKeyRejected),
        ({"user": "nobody", "sudo": True}, AuthenticationRefused),
        ({"port": 2222}, HostUnreachable),
    ],
)
def test_a_closed_door_says_why(host: Host, changes: dict[str, Any], kind: type[HostError]) -> None:
    with pytest.raises(kind):
        patient(host, link_patience_seconds=0, **changes).run(["true"])


def test_a_changed_host_key_is_refused(host: Host, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    kind, public = key.with_suffix(".pub").read_text().split()[:2]
    (tmp_path / "known").write_text(f"{host.address} {kind} {public}\n")
    with pytest.raises(HostKeyRejected):
        patient(host, known_hosts=str(tmp_path / "known")).run(["true"])


def test_on_a_cut_link_nothing_waits_for_ever(host: Host) -> None:
    impatient = patient(host, link_patience_seconds=0)
    impatient.run(["true"])
    cutting = threading.Timer(1, hosts.cut, [NAME])
    cutting.start()
    began = time.monotonic()
    try:
        with pytest.raises(HostUnreachable) as lost:
            impatient.run(["sleep", "100"], timeout=200)
        assert lost.value.sent
        with pytest.raises(HostUnreachable):
            impatient.run(["true"])
    finally:
        hosts.heal(NAME)
    assert time.monotonic() - began < 60
    assert host.run(["true"]).exit == 0
