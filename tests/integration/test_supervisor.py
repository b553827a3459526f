"""The supervisor on a real host: what it starts survives callers, links, kills and reboots."""

import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from blocks import sudo, supervisor_client
from blocks.errors import (
    AuthenticationRefused,
    CommandFailed,
    HostError,
    HostKeyRejected,
    HostUnreachable,
    Refused,
    SudoRefused,
)
from blocks.host import Host
from blocks.supervisor import ports
from blocks.supervisor.launcher import unit_of
from blocks.supervisor_archive import Archive, archive
from blocks.supervisor_client import PATH, Outcome, Supervisor
from deployments.sandbox import hosts
from tests.integration.nvml_stub import (
    CONFIGURATION,
    LIBRARY,
    StubGpu,
    StubProcess,
    build_stub,
    configuration,
)
from tests.integration.polling import until
from tests.wheels import wheel

pytestmark = pytest.mark.host

NAME = f"t0p{os.getpid()}"
ROOT = Path(__file__).parents[2]
UNIT = "probe.service"
PROBE = Path(__file__).with_name("probe_service.py")
PROBE_BENCH = Path(__file__).with_name("probe_bench.py")
DEATHS = (
    "journalctl -o short-unix -g 'Main process exited' --no-pager -q | tail -1 | cut -d' ' -f1; #"
)
ENVIRONMENT = "/opt/vllm/probe"
WHEELS = "/opt/vllm/wheels"
INDEX = "http://127.0.0.1:8900/simple"
MUTE_INDEX = """
import socketserver, time
class Mute(socketserver.BaseRequestHandler):
    def handle(self):
        time.sleep(1000)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", 8900), Mute).serve_forever()
"""
SPEAKING_INDEX = """
import http.server, socketserver
socketserver.ThreadingTCPServer.allow_reuse_address = True
handler = http.server.SimpleHTTPRequestHandler
socketserver.ThreadingTCPServer(("127.0.0.1", 8900), handler).serve_forever()
"""
UNIT_FILE = """[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/bin/python3 /opt/probe.py {mode}
Restart={restart}
RestartSec={pause}
"""


class Bench:
    """A host, its supervisor, and a redeploy's worth of operations on it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.supervisor = Supervisor(host)
        self.id = ""

    def begin(self, id_: str) -> None:
        self.id = id_
        lock = {"environment": ENVIRONMENT, "holder": id_, "who": "test", "why": "test"}
        self.supervisor.call("lock", {**lock, "lease_seconds": 60})

    def end(self) -> None:
        self.do("end", "stop", unit=UNIT, timeout_seconds=30)
        self.supervisor.call("unlock", {"environment": ENVIRONMENT, "holder": self.id})

    def do(self, name: str, verb: str, **arguments: Any) -> Outcome:
        operation = f"{self.id}/{name}"
        return self.supervisor.ensure(
            operation, verb, arguments, holder=self.id, environment=ENVIRONMENT
        )

    def launch(self, mode: str, restart: str = "no", pause: str = "100ms") -> dict[str, Any]:
        self.put_unit(mode, restart, pause)
        return self.do("start", "start", unit=UNIT).result or {}

    def put_unit(self, mode: str, restart: str = "no", pause: str = "100ms") -> None:
        text = UNIT_FILE.format(mode=mode, restart=restart, pause=pause)
        self.host.put(text.encode(), f"/etc/systemd/system/{UNIT}")

    def watch(
        self, launched: dict[str, Any], name: str = "watch", deadline: float = 8, **more: Any
    ) -> Outcome:
        return self.do(name, "watch", **self.watching(launched, deadline), **more)

    def watching(self, launched: dict[str, Any], deadline: float) -> dict[str, Any]:
        start = {key: launched[key] for key in ("invocation", "started")}
        return {"unit": UNIT, **start, "port": 8123, "deadline_seconds": deadline, "lines": 20}

    def shell(self, script: str) -> str:
        return self.host.run(["sh", "-c", script]).check().stdout.strip()

    def log(self) -> list[dict[str, Any]]:
        lines = self.shell("cat /var/lib/vllm-redeploy/operations.jsonl").splitlines()
        return [one for one in map(json.loads, lines) if one["holder"] == self.id]

    def events(self, name: str) -> list[str]:
        return [one["event"] for one in self.log() if one["operation"] == f"{self.id}/{name}"]

    def kill(self, name: str) -> None:
        """Kill an operation's process; that it was started is written before there is one."""
        unit = unit_of(f"{self.id}/{name}")
        at_work = ["systemctl", "show", "--property=SubState", "--value", unit]
        until(lambda: self.host.run(at_work).stdout.strip() == "running", f"{unit} at work", 10)
        self.host.run(["systemctl", "kill", "--signal=KILL", unit]).check()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    hosts.remove(NAME)
    up = hosts.up(NAME)
    block = Host(address=up.address, key_file=str(up.key_file), known_hosts=str(up.known_hosts))
    block.put(PROBE.read_bytes(), "/opt/probe.py")
    Supervisor(block).install()
    yield block
    block.close()
    hosts.remove(NAME)


@pytest.fixture
def bench(host: Host, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(host)
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())
    made.begin(f"{name[:60].strip('-')}-{time.time_ns()}")
    yield made
    made.end()


def patient(host: Host, **more: Any) -> Host:
    return Host(**{**host.model_dump(), **more})


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


def another_version() -> Archive:
    """Return our own supervisor with something more in it."""
    buffer = io.BytesIO(archive().data)
    with zipfile.ZipFile(buffer, "a") as file:
        file.writestr("more.txt", "more")
    data = buffer.getvalue()
    return Archive(data, hashlib.sha256(data).hexdigest())


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


def test_a_start_is_followed_until_it_serves(bench: Bench) -> None:
    outcome = bench.watch(bench.launch("serve"))
    assert outcome.state == "succeeded", outcome.error
    stages = [one["name"] for one in (outcome.result or {})["stages"]]
    assert "loading weights" in stages[1:-1]
    assert stages[-1] == "ready"
    result = outcome.result or {}
    assert (result["address"], result["restarts"], result["slow"]) == ("127.0.0.1", 0, [])
    assert result["seconds"]["loading weights"] > 0.3


def test_the_address_that_the_service_listens_on_is_told_and_the_tunnel_leads_there(
    bench: Bench,
) -> None:
    outcome = bench.watch(bench.launch("serve-v6"))
    assert outcome.state == "succeeded", outcome.error
    address = (outcome.result or {})["address"]
    assert address == "::1"
    with bench.host.tunnel(8123, address) as port:
        assert ports.healthy("127.0.0.1", port)
    with bench.host.tunnel(8123) as port:
        assert not ports.healthy("127.0.0.1", port)


@pytest.mark.parametrize(
    ("mode", "restart", "pause", "kind"),
    [
        ("crash", "no", "1s", "crashed"),
        ("crash", "always", "20ms", "crashed"),
        ("crash", "always", "30s", "crashed"),
        ("kill", "always", "20ms", "crashed"),
        ("exit-0", "no", "1s", "exited"),
        ("exit-0", "always", "20ms", "exited"),
        ("exit-0", "always", "30s", "exited"),
    ],
)
def test_every_death_is_noticed_at_once(
    bench: Bench, mode: str, restart: str, pause: str, kind: str
) -> None:
    error = bench.watch(bench.launch(mode, restart, pause)).error or {}
    assert error["kind"] == kind
    assert error["noticed_after_seconds"] < 0.5
    assert error["last_stage"] == "loading weights"
    assert any("going down" in line for line in error["last_lines"])


def test_what_a_service_prints_is_told_without_secrets_and_without_escapes(bench: Bench) -> None:
    launched = bench.launch("crash")
    last = (bench.watch(launched).error or {})["last_lines"]
    asked = {"unit": UNIT, "invocation": launched["invocation"], "lines": 100}
    entries = bench.supervisor.call("journal", asked)["entries"]
    told = [
        "non-default args: {'port': 8123, 'api_key': ***, 'hf_token': '***'}",
        "fetched https://***@x.example/m by Bearer ***",
    ]
    assert [line for line in last if line in told] == told
    assert [one["message"] for one in entries if one["message"] in told] == told
    remembered = (
        f"grep -rE 'k e y|sk-proj|hid' /var/lib/vllm-redeploy/operations/{bench.id} || true"
    )
    assert bench.shell(remembered) == ""


def test_a_journalctl_that_ends_loses_no_line_of_a_watch(bench: Bench) -> None:
    asked = bench.watching(bench.launch("chatter"), 5)
    watching = threading.Thread(target=lambda: bench.do("watch", "watch", **asked))
    watching.start()
    following = ["pgrep", "-x", "journalctl"]
    until(lambda: bench.host.run(following).exit == 0, "a journalctl that follows", 10)
    time.sleep(1.5)
    bench.shell("systemctl restart systemd-journald; pkill -x journalctl")
    watching.join()
    lines = (bench.do("watch", "watch", **asked).error or {})["last_lines"]
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(numbers[-1] - 19, numbers[-1] + 1))


def test_a_hang_ends_at_the_deadline_and_the_service_is_left_alone(bench: Bench) -> None:
    error = bench.watch(bench.launch("hang"), deadline=3).error or {}
    assert error["kind"] == "hung"
    assert bench.shell(f"systemctl is-active {UNIT}") == "active"


def test_a_stage_that_takes_too_long_is_named(bench: Bench) -> None:
    limits = {"loading weights": 2}
    error = bench.watch(bench.launch("hang"), deadline=30, limits=limits).error or {}
    assert (error["kind"], error["last_stage"]) == ("hung", "loading weights")
    assert "the limit of this stage is 2 s" in error["message"]
    assert any("the main process" in one for one in error["doing"])


STALL: dict[str, Any] = {"stall_floor_seconds": 3, "longest": {"loading weights": 1}}


def test_a_start_that_has_stalled_by_its_history_ends_and_says_what_it_does(bench: Bench) -> None:
    launched = bench.launch("hang")
    error = bench.watch(launched, deadline=60, **STALL).error or {}
    assert error["kind"] == "stalled", error
    assert "has never taken longer than 1 s" in error["message"]
    assert error["doing"][0].startswith("python3 (")
    assert "sleeping" in error["doing"][0]
    assert error["py_spy"] is None
    assert bench.shell(f"systemctl is-active {UNIT}") == "active"


def test_a_start_without_history_is_called_slow_and_waited_for(bench: Bench) -> None:
    asked = {**bench.watching(bench.launch("hang"), 10), "stall_floor_seconds": 3}
    seen: list[dict[str, Any]] = []
    outcome = bench.supervisor.ensure(
        f"{bench.id}/watch",
        "watch",
        asked,
        holder=bench.id,
        environment=ENVIRONMENT,
        wait_seconds=1,
        on_progress=seen.append,
    )
    error = outcome.error or {}
    assert (error["kind"], outcome.state) == ("hung", "failed")
    last = seen[-1]
    assert last["judgement"]["kind"] == "slow"
    assert "no earlier start tells" in last["judgement"]["why"]
    assert any("the main process" in one for one in last["doing"])
    assert last["says"].startswith("loading weights")


def test_py_spy_of_the_environment_says_where_the_code_is(bench: Bench) -> None:
    fake = "#!/bin/sh\necho Process $3: x --api-key sk-hidden-1234; id -un\n"
    bench.shell(f"rm -rf {ENVIRONMENT}; id keeper || useradd -m keeper")
    bench.shell(f"install -d -o keeper {ENVIRONMENT} {ENVIRONMENT}/bin")
    bench.host.put(fake.encode(), f"{ENVIRONMENT}/bin/py-spy", 0o755)
    more: dict[str, Any] = {**STALL, "environment": ENVIRONMENT}
    error = bench.watch(bench.launch("hang"), deadline=60, **more).error or {}
    bench.shell(f"rm -rf {ENVIRONMENT}")
    pid = error["unit"]["main_pid"]
    assert error["py_spy"] == f"Process {pid}: x --api-key ***\nkeeper"


def test_a_restart_is_followed_where_it_is_tolerated_and_counted(bench: Bench) -> None:
    bench.shell("rm -f /run/crashed-once")
    launched = bench.launch("crash-once", "always")
    outcome = bench.watch(launched, restarts_tolerated=1)
    assert outcome.state == "succeeded", outcome.error
    result = outcome.result or {}
    assert result["restarts"] == 1
    assert result["invocation"] != launched["invocation"]
    assert result["stages"][0]["at"] > 0.3
    held = {**bench.watching(launched, 8), "seconds": 1}
    assert bench.do("held", "hold", **held, restarts_tolerated=1).state == "succeeded"
    assert (bench.do("none", "hold", **held).error or {})["kind"] == "crashed"
    asked = {"unit": UNIT, "invocation": launched["invocation"], "port": 8123}
    alive = bench.supervisor.call("alive", {**asked, "restarts_tolerated": 1})
    assert alive == {"died": None, "address": "127.0.0.1", "others": []}
    assert bench.supervisor.call("alive", asked)["died"] == "crashed"


@pytest.mark.parametrize("pause", ["20ms", "1s"])
def test_one_restart_too_many_is_a_crash(bench: Bench, pause: str) -> None:
    error = bench.watch(bench.launch("crash", "always", pause), restarts_tolerated=1).error or {}
    assert error["kind"] == "crashed"
    assert error["noticed_after_seconds"] < 1
    assert error["last_stage"] == "loading weights"
    assert "going down" in error["last_lines"]


@contextlib.contextmanager
def squatter(bench: Bench, address: str) -> Iterator[None]:
    """Another process on the service's port."""
    unit = "squatter.service"
    run = ("systemd-run", "--quiet", f"--unit={unit}")
    bench.host.run([*run, "python3", "/opt/probe.py", "serve", address]).check()
    listens = f"ss -ltn | grep -F {address}:8123"
    until(lambda: bench.host.run(["sh", "-c", listens]).exit == 0, "a squatter", 20)
    try:
        yield
    finally:
        bench.host.run(["systemctl", "stop", unit])


def own_address(bench: Bench) -> str:
    return bench.shell("hostname -I").split()[0]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_another_process_on_the_port_is_not_taken_for_the_service(
    bench: Bench, address: str
) -> None:
    with squatter(bench, address):
        launched = bench.launch("hang")
        began = time.time()
        error = bench.watch(launched, deadline=30).error or {}
    assert error["kind"] == "port-taken"
    assert [(one["address"], "serve" in one["command"]) for one in error["holders"]] == [
        (address, True)
    ]
    assert str(error["holders"][0]["pid"]) in error["message"]
    failed = next(one for one in bench.log() if one["event"] == "failed")
    assert failed["time"] - began < 2


def test_a_service_is_not_started_beside_another_on_its_port(bench: Bench) -> None:
    bench.put_unit("serve")
    with squatter(bench, "127.0.0.1"):
        error = bench.do("taken", "start", unit=UNIT, port=8123).error or {}
        assert bench.host.run(["systemctl", "is-active", UNIT]).exit != 0
    assert (error["kind"], len(error["holders"])) == ("port-taken", 1)
    assert "was not started" in error["message"]


def test_one_that_is_just_leaving_the_port_is_waited_for(bench: Bench) -> None:
    bench.put_unit("serve")
    with squatter(bench, "127.0.0.1"):
        at_once = "--timer-property=AccuracySec=10ms"  # else within a minute
        bench.shell(
            f"systemd-run --quiet --on-active=1.5s {at_once} systemctl stop squatter.service"
        )
        outcome = bench.do("leaving", "start", unit=UNIT, port=8123)
    assert outcome.state == "succeeded", outcome.error


def test_another_process_on_another_address_of_the_port_is_in_nobodys_way(bench: Bench) -> None:
    with squatter(bench, own_address(bench)):
        bench.put_unit("serve")
        started = bench.do("start", "start", unit=UNIT, port=8123)
        assert started.state == "succeeded", started.error
        outcome = bench.watch(started.result or {})
        assert outcome.state == "succeeded", outcome.error
        held = {**bench.watching(started.result or {}, 8), "seconds": 1}
        assert bench.do("hold", "hold", **held).state == "succeeded"


def test_another_process_on_the_port_ends_the_hold(bench: Bench) -> None:
    launched = bench.launch("serve")
    assert bench.watch(launched).state == "succeeded"
    asked = {**bench.watching(launched, 8), "seconds": 30}
    errors: list[dict[str, Any]] = []
    holding = threading.Thread(
        target=lambda: errors.append(bench.do("hold", "hold", **asked).error or {})
    )
    holding.start()
    until(lambda: bench.events("hold") == ["started"], "the start of the operation", 10)
    with squatter(bench, "0.0.0.0"):
        holding.join()
    assert (errors[0]["kind"], errors[0]["last_stage"]) == ("port-taken", "ready")


def test_a_systemd_that_does_not_answer_for_a_while_fails_nothing(bench: Bench) -> None:
    launched = bench.launch("serve")
    assert bench.watch(launched).state == "succeeded"
    asked = {**bench.watching(launched, 8), "seconds": 8}
    held: list[Outcome] = []
    holding = threading.Thread(target=lambda: held.append(bench.do("hold", "hold", **asked)))
    holding.start()
    until(lambda: bench.events("hold") == ["started"], "the start of the operation", 10)
    time.sleep(1)
    bench.shell("mount --bind /bin/false /bin/systemctl; sleep 6; umount /bin/systemctl")
    holding.join()
    assert held[0].state == "succeeded", held[0].error


def test_an_unknown_unit_fails_with_its_load_state(bench: Bench) -> None:
    for name, verb in (("a", "start"), ("b", "stop")):
        more = {"timeout_seconds": 1} if verb == "stop" else {}
        error = bench.do(name, verb, unit="nowhere.service", **more).error or {}
        assert error["kind"] == "no-such-unit"
        assert "LoadState=not-found" in error["message"]


def test_a_stop_that_takes_too_long_says_so(bench: Bench) -> None:
    bench.watch(bench.launch("deaf"))
    error = bench.do("stop", "stop", unit=UNIT, timeout_seconds=1).error or {}
    assert error["kind"] == "still-running"
    bench.shell(f"systemctl kill --signal=KILL {UNIT}")


def test_a_killed_caller_is_followed_by_another_that_attaches(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 6)
    caller = _caller(bench, "watch", asked)
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 30)
    caller.kill()
    caller.wait()
    outcome = bench.do("watch", "watch", **asked)
    assert (outcome.attached, (outcome.error or {})["kind"]) == (True, "hung")
    assert bench.events("watch") == ["started", "failed"]


def test_a_killed_operation_is_interrupted_and_runs_again(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 6)
    outcomes: list[Outcome] = []
    callers = [
        threading.Thread(target=lambda: outcomes.append(bench.do("watch", "watch", **asked)))
        for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 10)
    bench.kill("watch")
    for caller in callers:
        caller.join()
    assert bench.events("watch") == ["started", "interrupted", "started", "failed"]
    assert [(one.error or {})["kind"] for one in outcomes] == ["hung"] * 3


def test_a_cut_link_does_not_end_an_operation(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 30)
    outcomes: list[Outcome] = []
    caller = threading.Thread(target=lambda: outcomes.append(bench.do("watch", "watch", **asked)))
    caller.start()
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 10)
    hosts.cut(NAME)
    time.sleep(20)
    hosts.heal(NAME)
    caller.join()
    assert (outcomes[0].error or {})["kind"] == "hung"
    assert bench.events("watch") == ["started", "failed"]


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


def test_a_reboot_interrupts_an_operation_and_the_next_caller_has_it_done(bench: Bench) -> None:
    asked = bench.watching(bench.launch("hang"), 60)
    caller = _caller(bench, "watch", asked)
    until(lambda: bench.events("watch") == ["started"], "the start of the operation", 30)
    caller.kill()
    caller.wait()
    hosts.reboot(NAME)
    assert bench.supervisor.call("status", {})["running"] == []
    listed = bench.supervisor.call("operations", {"prefix": bench.id})["operations"]
    assert [one["state"] for one in listed] == ["succeeded", "interrupted"]
    error = bench.do("watch", "watch", **asked).error or {}
    assert error["kind"] == "rebooted"
    assert any("going on" in line for line in error["last_lines"])
    assert bench.events("watch") == ["started", "interrupted", "started", "failed"]


PASSWORD = "{} 'pass' wörd"  # noqa: S105


@pytest.fixture(scope="module")
def caller(host: Host) -> Callable[..., Supervisor]:
    """Return what a user of the host calls, by a rule of sudoers."""
    host.run(["useradd", "--create-home", "caller"]).check()
    host.run(["chpasswd"], input=f"caller:{PASSWORD}\n").check()
    host.run(["cp", "-r", "/root/.ssh", "/home/caller/"]).check()
    host.run(["chown", "-R", "caller:", "/home/caller/.ssh"]).check()

    def ruled(rule: str, **more: Any) -> Supervisor:
        host.put(f"{rule}\n".encode(), "/etc/sudoers.d/caller", 0o440)
        return Supervisor(patient(host, user="caller", **more))

    return ruled


def test_sudo_has_to_allow_the_supervisor_and_nothing_else(
    host: Host, caller: Callable[..., Supervisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = sudo.allowing("caller", PATH, password=False)
    allowed = caller(line, sudo=True)
    assert allowed.install() == allowed.call("version", {})["version"]
    without = host.run(["runuser", "-u", "caller", "--", PATH, "status"], input="{}")
    assert json.loads(without.stdout)["error"]["kind"] == "not-root"
    monkeypatch.setattr(supervisor_client, "archive", another_version)
    with pytest.raises(SudoRefused, match="a password is required") as not_put:
        allowed.install()
    by_root = not_put.value.hint.partition("| ssh root@")[2].partition(" ")[2].partition("`")[0]
    host.run(["sh", "-c", by_root], input="#!/bin/sh\necho by root").check()
    assert (host.run([PATH]).stdout, host.run(["stat", "-c%a", PATH]).stdout) == (
        "by root\n",
        "755\n",
    )
    monkeypatch.undo()
    Supervisor(host).install()
    with pytest.raises(SudoRefused, match="sudo refuses caller@") as nothing:
        caller("", sudo=True).call("status", {})
    assert nothing.value.hint.endswith(line)


def test_the_password_for_sudo_is_for_sudo_alone(
    host: Host, caller: Callable[..., Supervisor]
) -> None:
    line = sudo.allowing("caller", PATH, password=True)
    given = {"sudo": True, "sudo_password": SecretStr(PASSWORD)}
    once = "Defaults:caller timestamp_type=global"
    for rule in (
        line,  # it asks
        f"{once}\n{line}",  # it would not ask again
        sudo.allowing("caller", PATH, password=False),  # it never asks
    ):
        asking = caller(rule, **given)
        asking.host.run(["sudo", "-S", "-v"], input=f"{PASSWORD}\n").check()
        assert asking.install() == archive().version
        with pytest.raises(Refused, match="no such argument"):
            asking.call("operations", {"odd": "é\n"})
    writing = caller("caller ALL=(root) NOPASSWD: /usr/bin/dd, PASSWD: ALL", **given).host
    data = os.urandom(300_000)
    writing.put(data, "/opt/by-caller", 0o600)
    digest = hashlib.sha256(data).hexdigest()
    host.run(["sha256sum", "--check"], input=f"{digest}  /opt/by-caller").check()
    assert host.run(["stat", "-c%a %U", "/opt/by-caller"]).stdout == "600 root\n"
    lying = host.run(["sh", "-c", "ls -d /opt/by-caller* /tmp/redeploy-*"]).stdout.split()
    assert lying == ["/opt/by-caller"]


def test_a_wrong_password_is_tried_once_and_told_nowhere(
    host: Host, caller: Callable[..., Supervisor]
) -> None:
    line = sudo.allowing("caller", PATH, password=True)
    wrong = "wr0ng-and-secret"
    cached = f"Defaults:caller timestamp_type=global\n{line}"
    supervisor = caller(cached, sudo=True, sudo_password=SecretStr(wrong))
    supervisor.host.run(["sudo", "-S", "-v"], input=f"{PASSWORD}\n").check()
    for _ in range(2):
        with pytest.raises(SudoRefused, match="1 incorrect password attempt") as refused:
            supervisor.install()
        assert refused.value.hint == f"Check sudo_password and sudoers. The line it needs: {line}"
    with pytest.raises(SudoRefused, match="a password is required"):
        caller(line, sudo=True).call("status", {})
    journal = host.run(["journalctl", "--no-pager", "-q"], timeout=60).stdout
    assert journal.count("incorrect password attempt") == 1
    assert wrong not in journal + str(refused.value) + repr(supervisor.host)
    assert PASSWORD not in journal


def test_a_name_does_not_stand_for_another_question(bench: Bench) -> None:
    bench.launch("hang")
    bench.do("stop", "stop", unit=UNIT, timeout_seconds=5)
    with pytest.raises(Refused) as refused:
        bench.do("stop", "stop", unit="other.service", timeout_seconds=5)
    assert (refused.value.kind, refused.value.fields["differs"]) == ("other-operation", ["unit"])


def test_facts_of_an_environment_that_does_not_answer(bench: Bench) -> None:
    info = f"{ENVIRONMENT}/lib/python3.11/site-packages/x-1.dist-info"
    bench.shell(f"rm -rf {ENVIRONMENT}*; mkdir -p {info}; mkfifo {info}/METADATA")
    asked = {"unit": UNIT, "environment": ENVIRONMENT, "model": "/nowhere"}
    facts = bench.supervisor.call("facts", asked, timeout=50)
    bench.shell(f"rm -rf {ENVIRONMENT}*")
    assert "did not answer" in facts["environment"]["problem"]
    assert (facts["unit"]["load_state"], facts["model"]["exists"]) == ("loaded", False)


def test_only_the_holder_of_the_lock_may_act(bench: Bench) -> None:
    stop = {"unit": UNIT, "timeout_seconds": 1}
    with pytest.raises(Refused) as refused:
        bench.supervisor.ensure("other/stop", "stop", stop, holder="other", environment=ENVIRONMENT)
    assert (refused.value.kind, refused.value.fields["holder"]) == ("locked", bench.id)


@pytest.fixture
def gpus(bench: Bench, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """A GPU driver that says what it is told to say."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    library = f"/usr/lib/{LIBRARY}"
    bench.host.put(build_stub(tmp_path).read_bytes(), library)
    bench.launch("serve")
    yield lambda told: bench.host.put(told.encode(), CONFIGURATION)
    bench.host.run(["rm", "-f", library, CONFIGURATION])


def held(used: int) -> str:
    gpu = StubGpu("GPU-1", "NVIDIA H200", 10**11, used, (StubProcess(1, used),))
    return configuration([gpu, gpu])


WAITING = {"unit": UNIT, "baseline": {"1": 10**6}, "tolerance_bytes": 10**6}


def test_a_start_waits_for_this_services_gpus(bench: Bench, gpus: Callable[[str], None]) -> None:
    gpus(held(10**10))
    busy = bench.do("busy", "start", gpu_wait_seconds=1, **WAITING).error or {}
    releasing = threading.Timer(3, gpus, [held(0)])
    releasing.start()
    started = bench.do("free", "start", gpu_wait_seconds=60, **WAITING)
    releasing.join()
    assert (busy["kind"], busy["pids"]) == ("gpus-busy", [1])
    assert started.state == "succeeded", started.error
    assert (started.result or {})["gpus_waited_seconds"] > 1


@pytest.mark.parametrize("told", ["fail 999\n", configuration([])])
def test_gpus_that_cannot_be_looked_at_are_waited_for_and_not_taken_for_free(
    bench: Bench, gpus: Callable[[str], None], told: str
) -> None:
    gpus(told)
    unknown = bench.do("unknown", "start", gpu_wait_seconds=2, **WAITING)
    repairing = threading.Timer(3, gpus, [held(0)])
    repairing.start()
    started = bench.do("seen", "start", gpu_wait_seconds=60, **WAITING)
    repairing.join()
    assert (unknown.error or {})["kind"] == "gpus-unknown"
    assert (unknown.finished or 0) - unknown.started >= 2
    assert started.state == "succeeded", started.error
    assert (started.result or {})["gpus_waited_seconds"] > 1


class Measuring:
    """A service that serves, an environment with a benchmark, and the question of a benchmark."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.invocation = ""
        bench.shell(f"rm -rf {ENVIRONMENT}*; mkdir -p {ENVIRONMENT}/bin")
        bench.shell(f"ln -s /usr/bin/python3 {ENVIRONMENT}/bin/python")
        bench.host.put(PROBE_BENCH.read_bytes(), f"{ENVIRONMENT}/bin/vllm", 0o755)

    def serve(self, mode: str, restart: str = "no") -> None:
        launched = self.bench.launch(mode, restart)
        assert self.bench.watch(launched).state == "succeeded"
        self.invocation = launched["invocation"]

    def at_work(self) -> bool:
        return self.bench.host.run(["pgrep", "-f", "[b]ench serve"]).exit == 0

    def ask(self, name: str = "benchmark", key: str | None = None, **changed: Any) -> Outcome:
        shape = {"num_prompts": 8, "input_len": 1, "output_len": 1}
        asked = {"environment": ENVIRONMENT, "unit": UNIT, "port": 8123, "model": "m", **shape}
        return self.bench.supervisor.ensure(
            f"{self.bench.id}/{name}",
            "benchmark",
            {**asked, "timeout_seconds": 60, **changed},
            holder=self.bench.id,
            environment=ENVIRONMENT,
            secrets={"OPENAI_API_KEY": SecretStr(key)} if key else None,
        )


@pytest.fixture
def measuring(bench: Bench) -> Iterator[Measuring]:
    yield Measuring(bench)
    bench.shell(f"rm -rf {ENVIRONMENT}*")


def test_a_service_is_measured_where_it_listens(measuring: Measuring) -> None:
    measuring.serve("serve-v6")
    outcome = measuring.ask()
    assert outcome.state == "succeeded", outcome.error
    assert (outcome.result or {})["completed"] == 8
    log = measuring.bench.shell(
        f"cat /var/lib/vllm-redeploy/operations/{measuring.bench.id}/benchmark/output.log"
    )
    assert "\x1b" not in log
    assert log.count("it/s]") == 1


@pytest.mark.parametrize("restart", ["no", "always"])
def test_a_service_that_dies_under_its_benchmark_is_what_failed(
    measuring: Measuring, restart: str
) -> None:
    measuring.serve("serve-and-die", restart)
    began = time.monotonic()
    error = measuring.ask().error or {}
    assert time.monotonic() - began < 5
    assert (error["kind"], error["invocation"]) == ("crashed", measuring.invocation)
    assert "going down" in error["last_lines"]
    assert not measuring.at_work()
    died = float(measuring.bench.shell(f"{DEATHS} _SYSTEMD_INVOCATION_ID={measuring.invocation}"))
    failed = next(one for one in reversed(measuring.bench.log()) if one["event"] == "failed")
    assert failed["time"] - died < 2


def test_a_service_that_hangs_under_its_benchmark_is_what_failed(measuring: Measuring) -> None:
    measuring.serve("serve-and-hang")
    began = time.monotonic()
    error = measuring.ask(stall_seconds=2).error or {}
    assert 12 < time.monotonic() - began < 20
    assert (error["kind"], error["invocation"]) == ("hung", measuring.invocation)
    assert (error["last_stage"], error["unit"]["active_state"]) == ("ready", "active")
    assert "going on" in error["last_lines"]
    assert any("the main process" in one for one in error["doing"])
    assert not measuring.at_work()


def test_a_benchmark_that_is_slow_is_not_taken_for_a_service_that_hangs(
    measuring: Measuring,
) -> None:
    measuring.serve("serve-slowly")
    outcome = measuring.ask(stall_seconds=1, num_prompts=3)
    assert outcome.state == "succeeded", outcome.error


KEY = "a-key-that-nobody-may-see"
SEARCH = f"""
key=$(printf %s {KEY[::-1]} | rev)
grep -rlF -e "$key" /var/lib/vllm-redeploy /run/vllm-redeploy && echo FOUND in files
journalctl --no-pager -a | grep -F -e "$key" && echo FOUND in the journal
for one in /proc/[0-9]*/cmdline; do
    tr '\\0' ' ' <"$one" 2>/dev/null | grep -qF -e "$key" && echo FOUND in "$one"
done
systemctl show 'redeploy-op-*' | grep -F -e "$key" && echo FOUND by systemctl show
true
"""


def test_a_key_reaches_the_benchmark_and_nothing_else(measuring: Measuring) -> None:
    measuring.bench.host.put(KEY.encode(), "/opt/key", 0o600)
    measuring.serve("serve-key")
    outcomes: list[Outcome] = []
    ask = functools.partial(measuring.ask, num_prompts=20)
    caller = threading.Thread(target=lambda: outcomes.append(ask(key=KEY)))
    caller.start()
    until(measuring.at_work, "a benchmark at work", 20)
    seen_at_work = measuring.bench.shell(SEARCH)
    measuring.bench.kill("benchmark")
    caller.join()
    assert outcomes[0].state == "succeeded", outcomes[0].error
    assert (outcomes[0].result or {})["said"] == "***"
    assert measuring.bench.events("benchmark") == [
        "started",
        "interrupted",
        "started",
        "finished",
    ]
    assert (seen_at_work, measuring.bench.shell(SEARCH)) == ("", "")
    without = measuring.ask("without").error or {}
    assert (without["kind"], without["failed"]) == ("benchmark-failed", 8)
    with pytest.raises(Refused) as refused:
        measuring.bench.supervisor.ensure(
            f"{measuring.bench.id}/other",
            "benchmark",
            {},
            holder=measuring.bench.id,
            environment=ENVIRONMENT,
            secrets={"PATH": SecretStr(KEY)},
        )
    assert refused.value.kind == "bad-argument"
    assert KEY not in str(refused.value)


@pytest.fixture
def environment(bench: Bench, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """An environment of user `keeper`, served by a service that runs as root."""
    bench.shell(
        f"rm -rf {ENVIRONMENT}* {WHEELS}; mkdir -p {WHEELS}; id keeper || useradd -m keeper"
    )
    for version in ("1.0", "2.0"):
        files = {"model.py": f"version = {version!r}\n", "data.bin": version * 1_000_000}
        made = wheel(tmp_path, "model", version, files)
        bench.host.put(made.read_bytes(), f"{WHEELS}/{made.name}")
    bench.shell(f"install -d -o keeper {ENVIRONMENT}")
    uv = "runuser -u keeper -- env HOME=/home/keeper uv"
    bench.shell(f"cd /; {uv} venv -q --offline {ENVIRONMENT}")
    install = f"{uv} pip install -q --no-index --find-links {WHEELS} --python"
    bench.shell(f"cd /; {install} {ENVIRONMENT}/bin/python model==1.0")
    bench.shell(f"cd /; {ENVIRONMENT}/bin/python -c 'import model'")
    yield lambda path: bench.shell(
        f"cd /; {path}/bin/python -B -c 'import model as m; print(m.version)'"
    )
    bench.shell(f"rm -rf {ENVIRONMENT}* {WHEELS}")


def test_an_environment_is_staged_verified_switched_and_switched_back(
    bench: Bench, environment: Callable[[str], str]
) -> None:
    wheel_url = f"file://{WHEELS}/model-2.0-py3-none-any.whl"
    lock = f"model @ {wheel_url} --hash=sha256:{_sha256(bench, '2.0')}"
    staged = bench.do("stage", "stage", environment=ENVIRONMENT, release="r1", lock=lock)
    assert staged.state == "succeeded", staged.error
    sibling, kept = f"{ENVIRONMENT}.r1", f"{ENVIRONMENT}.previous-r1"
    assert (staged.result or {})["sibling"] == sibling
    assert environment(ENVIRONMENT) == "1.0"
    look = {"environment": ENVIRONMENT, "look_at": sibling, "imports": ["model"]}
    verified = bench.do("verify", "verify", locked={"model": "2.0"}, **look)
    assert verified.state == "succeeded", verified.error
    moved = {"environment": ENVIRONMENT, "sibling": sibling, "previous": kept}
    assert (bench.do("switch", "switch", **moved).result or {})["how"] == "exchange"
    assert environment(ENVIRONMENT) == "2.0"
    back = {"environment": ENVIRONMENT, "sibling": kept, "previous": f"{ENVIRONMENT}.rejected"}
    assert bench.do("back", "switch", **back).state == "succeeded"
    assert environment(ENVIRONMENT) == "1.0"


def test_a_wrong_hash_stages_nothing(bench: Bench, environment: Callable[[str], str]) -> None:
    lock = f"model @ file://{WHEELS}/model-2.0-py3-none-any.whl --hash=sha256:{'0' * 64}"
    error = bench.do("stage", "stage", environment=ENVIRONMENT, release="r1", lock=lock).error or {}
    assert error["kind"] == "stage-failed"
    assert bench.shell(f"ls -d {ENVIRONMENT}*") == ENVIRONMENT
    assert environment(ENVIRONMENT) == "1.0"


def test_what_an_interrupted_staging_left_is_replaced(
    bench: Bench, environment: Callable[[str], str]
) -> None:
    lock = f"model==2.0 --hash=sha256:{_sha256(bench, '2.0')}"
    asked = {"environment": ENVIRONMENT, "release": "r1", "lock": lock, "indexes": [INDEX]}
    bench.shell(f"mkdir -p {WHEELS}/simple/model; ln {WHEELS}/*.whl {WHEELS}/simple/model")
    serve = ("systemd-run", "--quiet", "--unit=index", f"--working-directory={WHEELS}", "python3")
    bench.host.run([*serve, "-c", MUTE_INDEX]).check()
    caller = _caller(bench, "stage", asked)
    staging = f"ls -d {ENVIRONMENT}.r1/bin && pgrep -x uv"
    until(lambda: bench.host.run(["sh", "-c", staging]).exit == 0, "uv at work", 30)
    bench.shell(f"touch {ENVIRONMENT}.r1/left-over; systemctl stop index")
    bench.kill("stage")
    bench.host.run([*serve, "-c", SPEAKING_INDEX]).check()
    try:
        assert caller.wait(60) == 0
    finally:
        bench.shell("systemctl stop index")
    assert bench.events("stage") == ["started", "interrupted", "started", "finished"]
    assert environment(f"{ENVIRONMENT}.r1") == "2.0"
    assert bench.host.run(["ls", f"{ENVIRONMENT}.r1/left-over"]).exit != 0


def test_a_sibling_that_is_not_ours_is_left_alone(
    bench: Bench, environment: Callable[[str], str]
) -> None:
    bench.shell(f"mkdir {ENVIRONMENT}.r1; touch {ENVIRONMENT}.r1/precious")
    error = bench.do("stage", "stage", environment=ENVIRONMENT, release="r1", lock="").error or {}
    assert error["kind"] == "sibling-exists"
    assert bench.shell(f"ls {ENVIRONMENT}.r1") == "precious"
    assert environment(ENVIRONMENT) == "1.0"


def _sha256(bench: Bench, version: str) -> str:
    return bench.shell(f"sha256sum {WHEELS}/model-{version}-py3-none-any.whl").split()[0]


def _caller(bench: Bench, name: str, arguments: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start another process that asks for an operation and waits for it."""
    code = (
        "import json, sys; from blocks.host import Host;"
        "from blocks.supervisor_client import Supervisor; given = json.loads(sys.argv[1]);"
        "Supervisor(Host(**given.pop('host'))).ensure(**given)"
    )
    given = {
        "host": bench.host.model_dump(mode="json"),
        "operation": f"{bench.id}/{name}",
        "verb": "stage" if name == "stage" else "watch",
        "arguments": arguments,
        "holder": bench.id,
        "environment": ENVIRONMENT,
    }
    return subprocess.Popen([sys.executable, "-c", code, json.dumps(given)], cwd=ROOT)
