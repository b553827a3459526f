"""Hooks and draining, with a real HTTP server and real processes; only the record is in memory."""

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError
from tenacity import wait_none

from blocks.errors import CommandFailed, HostError, HostUnreachable
from blocks.hooks import CommandHook, Hook, HttpHook, OptionalHook
from blocks.host import Host, Ran
from blocks.service import Service
from tasks import hooks
from tasks import undrain as undraining
from tasks.drain import Drained, Unreadable, requests_in, take_out, wait_until_idle
from tasks.errors import StepFailed
from tasks.hooks import HookFailed, call
from tasks.redeployment import Redeployment
from tasks.request import Request
from tasks.undrain import put_back, put_in

SECRET = "sk-very-secret-4711"  # noqa: S105
HOOKS: TypeAdapter[Any] = TypeAdapter(OptionalHook)
IDLE = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"


@dataclass
class Router:
    """A router's API: answers with the next status of a list, 200 when it is empty."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    calls: list[tuple[str, str, dict[str, str], str]] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    answer: str = "ok"
    pause: float = 0

    def hook(self, **more: Any) -> HttpHook:
        return HttpHook(url=f"{self.url}/hook", **more)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def _handler(router: Router) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            router.calls.append((self.command, self.path, dict(self.headers), body))
            time.sleep(router.pause)
            status = router.statuses.pop(0) if router.statuses else 200
            self._say(status, router.answer)

        do_PATCH = do_POST

        def do_GET(self) -> None:
            found = router.metrics.pop(0) if len(router.metrics) > 1 else router.metrics[0]
            router.calls.append(("GET", self.path, {}, found))
            self._say(200 if found else 500, found)

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


@pytest.fixture
def router() -> Iterator[Router]:
    router = Router(metrics=[IDLE])
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(router)) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        router.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield router
        server.shutdown()


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses between tries pass at once."""
    monkeypatch.setattr(hooks, "PAUSES", wait_none())


class NearHost:
    """Runs what is meant for the host here, as a host would; lost when a test says so."""

    def __init__(self) -> None:
        self.lost = False
        self.ran: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *, timeout: float, repeatable: bool) -> Ran:
        assert repeatable
        self.ran.append(tuple(argv))
        if self.lost:
            raise HostUnreachable("The link is gone.")
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise CommandFailed("It had not ended.") from None
        return Ran(tuple(argv), done.returncode, done.stdout, done.stderr, 0)

    @contextmanager
    def tunnel(self, port: int, address: str) -> Iterator[int]:
        assert address == "127.0.0.1"
        yield port


def called(hook: Hook) -> None:
    call(hook, cast("Host", NearHost()))


def python(code: str, where: str = "controller", **more: Any) -> CommandHook:
    return CommandHook.model_validate(
        {"argv": [sys.executable, "-c", code], "where": where, **more}
    )


# What may be written down


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "a hook has either a url"),
        ({"url": "http://a", "argv": ["true"]}, "a hook has either a url"),
        ("http://a", "a hook has either a url"),
        ({"url": "file:///etc/passwd"}, "http://HOST"),
        ({"url": "http:///x"}, "http://HOST"),
        ({"url": "http://host:port/"}, "not a URL"),
        ({"url": f"http://me:{SECRET}@router/"}, "credentials"),
        ({"url": "http://router/a b"}, "no spaces"),
        ({"url": "http://router/\n"}, "no spaces"),
        ({"url": "http://router/#here"}, "fragment"),
        ({"url": "http://router", "method": "DROP"}, "'POST'"),
        ({"url": "http://router", "proxy": "x"}, "Extra inputs"),
        ({"url": "http://router", "timeout_seconds": 0}, "greater than 0"),
        ({"url": "http://router", "bearer": f"{SECRET}\r\nX: y"}, "one word"),
        ({"url": "http://router", "headers": {"X Y": SECRET}}, "name of a header"),
        ({"url": "http://router", "headers": {"X": f"{SECRET}\nY: z"}}, "not one line"),
        ({"url": "http://router", "headers": {"X": 3}}, "not one line"),
        ({"argv": []}, "at least 1"),
        ({"argv": ["x"] * 65}, "at most 64"),
        ({"argv": ["echo", "a\nb"]}, "one printable line"),
        ({"argv": ["./drain.sh"]}, "absolute path"),
        ({"argv": ["--", "x"]}, "is a program"),
        ({"argv": ["true"], "where": "router"}, "'controller' or 'host'"),
        ({"argv": "rm -rf /"}, "valid list"),
    ],
)
def test_what_cannot_be_called_is_refused_in_one_sentence(written: object, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        HOOKS.validate_python(written)
    errors = refused.value.errors()
    assert len(errors) == 1
    assert said in errors[0]["msg"]
    assert SECRET not in errors[0]["msg"]
    assert SECRET not in str(as_a_model_says_it(written))


def as_a_model_says_it(written: object) -> ValidationError:
    """Return the error as a model with the fields says it, where it hides what was given."""
    kind = HttpHook if isinstance(written, dict) and "url" in written else CommandHook
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(written)
    return refused.value


def test_a_hook_is_kept_and_found_again_with_its_secrets() -> None:
    hook = HttpHook.model_validate(
        {"url": "http://router", "bearer": SECRET, "headers": {"X-Key": SECRET}}
    )
    assert SECRET not in repr(hook) + str(hook) + hook.model_dump_json()
    assert hook.all_headers() == {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}


def test_prefect_knows_the_choice_and_where_the_secrets_are() -> None:
    schema = Drains.model_json_schema()
    secrets = [f"{name}.{one}" for name in ("drain", "undrain") for one in ("bearer", "headers.*")]
    assert set(secrets) <= set(schema["secret_fields"])
    kinds = [one.get("$ref", one.get("type")) for one in schema["properties"]["drain"]["anyOf"]]
    assert kinds == ["#/definitions/HttpHook", "#/definitions/CommandHook", "null"]


@pytest.mark.parametrize("headers", [None, {}, "", {"X-Key": SECRET}])
def test_a_block_comes_back_as_it_was_saved(run: "Run", headers: object) -> None:
    hook = HttpHook.model_validate({"url": "http://router", "bearer": "k", "headers": headers})
    service = run.service.model_copy(update={"drain": hook})
    saved = service.model_dump(mode="json", context={"include_secrets": True})
    saved["host"] = run.service.host
    assert Drains.model_validate(saved).drain == hook


# HTTP


def test_a_call_is_made_as_it_is_written(router: Router) -> None:
    body = json.dumps({"model_id": "gpu-17"})
    headers = {"Content-Type": "application/json"}
    called(router.hook(method="PATCH", bearer=SECRET, headers=headers, body=body))
    ((method, path, sent, got),) = router.calls
    assert (method, path, got) == ("PATCH", "/hook", body)
    assert sent["Authorization"] == f"Bearer {SECRET}"
    assert sent["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_passing_fault_is_tried_again(router: Router, status: int) -> None:
    router.statuses = [status, status]
    called(router.hook())
    assert len(router.calls) == 3


def test_after_three_tries_the_last_answer_is_told(router: Router) -> None:
    router.statuses, router.answer = [503] * 9, "no \x1b[31mupstream\x1b[0m\r\nhere"
    with pytest.raises(HookFailed, match=r"status 503: no .*upstream.* here") as failed:
        called(router.hook())
    assert len(router.calls) == 3
    assert "\x1b" not in str(failed.value)


@pytest.mark.parametrize("status", [302, 400, 401, 404])
def test_a_refusal_is_not_tried_again(router: Router, status: int) -> None:
    router.statuses = [status]
    with pytest.raises(HookFailed, match=f"status {status}"):
        called(router.hook())
    assert len(router.calls) == 1


def test_nobody_there_is_tried_three_times_and_said() -> None:
    began = time.monotonic()
    with pytest.raises(HookFailed, match=r"POST http://127.0.0.1:9/x\?… got no answer: Connect"):
        called(HttpHook(url="http://127.0.0.1:9/x?token=4711"))
    assert time.monotonic() - began < 5


def test_a_router_that_hangs_is_given_up(router: Router) -> None:
    router.pause = 0.5
    with pytest.raises(HookFailed, match="got no answer: ReadTimeout"):
        called(router.hook(timeout_seconds=0.1))
    assert len(router.calls) == 3


def test_an_endless_answer_is_cut(router: Router) -> None:
    router.statuses, router.answer = [400], "x" * 3_000_000
    with pytest.raises(HookFailed) as failed:
        called(router.hook())
    assert len(str(failed.value)) < 500


def test_a_router_that_echoes_the_key_does_not_get_it_into_an_error(router: Router) -> None:
    router.statuses = [401]
    router.answer = f"no such key: {SECRET} (Bearer {SECRET}), X-Key {SECRET[::-1]}"
    with pytest.raises(HookFailed) as failed:
        called(router.hook(bearer=SECRET, headers={"X-Key": SECRET[::-1]}))
    for text in (str(failed.value), repr(failed.value), failed.value.answer):
        assert SECRET not in text
        assert SECRET[::-1] not in text
    assert failed.value.__cause__ is None


def test_the_key_goes_to_no_proxy(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    called(router.hook(bearer=SECRET))
    assert len(router.calls) == 1


# Commands


@pytest.mark.parametrize("where", ["controller", "host"])
def test_a_command_gets_its_arguments_as_they_are(tmp_path: Path, where: str) -> None:
    words = ["; touch x", "$HOME", "*", "a b", ""]
    code = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"
    argv = [sys.executable, "-c", code, str(tmp_path / "out"), *words]
    called(CommandHook.model_validate({"argv": argv, "where": where}))
    assert json.loads((tmp_path / "out").read_text()) == words


@pytest.mark.parametrize("where", ["controller", "host"])
def test_a_command_that_fails_is_run_once_and_says_why(tmp_path: Path, where: str) -> None:
    code = (
        f"import sys; open({str(tmp_path / 'n')!r}, 'a').write('x'); sys.exit('no \\x1b upstream')"
    )
    with pytest.raises(HookFailed, match=r"exit status 1: no . upstream") as failed:
        called(python(code, where))
    assert "\x1b" not in str(failed.value)
    assert f"on the {where}" in str(failed.value)
    assert (tmp_path / "n").read_text() == "x"


@pytest.mark.parametrize("where", ["controller", "host"])
def test_a_command_that_says_so_is_tried_again(tmp_path: Path, where: str) -> None:
    mark = str(tmp_path / "n")
    code = f"import os, sys; f = open({mark!r}, 'a'); f.write('x'); f.flush(); "
    called(python(f"{code}sys.exit(75 * (os.path.getsize({mark!r}) < 3))", where))
    assert (tmp_path / "n").read_text() == "xxx"
    with pytest.raises(HookFailed, match="exit status 75"):
        called(python(f"{code}sys.exit(75)", where))
    assert (tmp_path / "n").read_text() == "xxxxxx"


@pytest.mark.parametrize("where", ["controller", "host"])
def test_a_command_that_hangs_is_ended(where: str) -> None:
    began = time.monotonic()
    with pytest.raises(HookFailed, match=r"had not ended after 0\.3 s"):
        called(python("import time; time.sleep(60)", where, timeout_seconds=0.3))
    assert time.monotonic() - began < 5


def test_a_child_that_is_left_behind_does_not_hold_the_hook() -> None:
    began = time.monotonic()
    called(python("import subprocess; subprocess.Popen(['sleep', '3'])"))
    assert time.monotonic() - began < 2


def test_a_command_on_the_controller_sees_no_keys_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIMI_KEY", SECRET)
    code = f"import json, os; json.dump(dict(os.environ), open({str(tmp_path / 'e')!r}, 'w'))"
    called(python(code))
    seen = json.loads((tmp_path / "e").read_text())
    assert SECRET not in seen.values()
    assert seen["PATH"] == os.environ["PATH"]


def test_a_command_that_is_not_there_is_said() -> None:
    with pytest.raises(HookFailed, match="could not be started: No such file"):
        called(CommandHook(argv=["/no/such/program"], where="controller"))


def test_a_signal_is_named() -> None:
    with pytest.raises(HookFailed, match="ended by signal 9"):
        called(python("import os; os.kill(os.getpid(), 9)"))


def test_a_failure_survives_pickling(router: Router) -> None:
    router.statuses = [404]
    with pytest.raises(HookFailed) as failed:
        called(router.hook())
    again = pickle.loads(pickle.dumps(failed.value))  # noqa: S301
    assert (str(again), again.hook) == (str(failed.value), failed.value.hook)


# Waiting


def test_requests_are_counted_over_all_engines() -> None:
    text = (
        'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        'vllm:num_requests_waiting{engine="0"} 4.0\nvllm:num_requests_waiting{engine="1"} 0.0\n'
        "vllm:prompt_tokens_total 9\n"
    )
    assert requests_in(text) == 7


@pytest.mark.parametrize(
    "text",
    ["", "<html>", "vllm:num_requests_running 0\n", IDLE.replace("running 0", "running NaN")],
)
def test_metrics_that_do_not_say_it_are_not_idle(text: str) -> None:
    with pytest.raises(Unreadable):
        requests_in(text)


def waited(readings: list[int | None], deadline: float = 60) -> tuple[int | None, list[str], float]:
    said: list[str] = []

    def read() -> int:
        found = readings.pop(0) if len(readings) > 1 else readings[0]
        if found is None:
            raise Unreadable("no answer")
        return found

    began = time.monotonic()
    left = wait_until_idle(read, deadline, lambda message, _level: said.append(message))
    return left, said, time.monotonic() - began


def test_one_idle_reading_is_not_enough() -> None:
    left, said, seconds = waited([2, 0, 1, 0, 0])
    assert left == 0
    assert said == ["waiting for 2 requests", "waiting for 1 requests"]
    assert 2 < seconds < 5


def test_the_deadline_ends_the_wait_with_what_is_left() -> None:
    left, said, seconds = waited([3], deadline=1)
    assert left == 3
    assert said == ["waiting for 3 requests"]
    assert 1 <= seconds < 2
    assert waited([3], deadline=0)[0] == 3


def test_what_cannot_be_read_three_times_is_not_waited_for() -> None:
    left, said, seconds = waited([None, 1, None, None, None])
    assert left is None
    assert [one for one in said if "cannot be counted" in one] == [said[0]] * 4
    assert seconds < 8


# The steps, with the host's record in memory


class Drains(Service):
    """A service with hooks."""

    _block_type_slug = "vllm-service-that-drains"

    drain: OptionalHook = None
    undrain: OptionalHook = None
    drain_deadline_seconds: int = 120


class Run(Redeployment):
    """A redeploy whose host remembers in memory, and is lost when a test says so."""

    def __init__(self, service: Service) -> None:
        super().__init__("r1", Request(service="small"), service)
        self.near = NearHost()
        self.host = cast("Host", self.near)
        self.remembered: dict[str, Any] = {}
        self.lines: list[str] = []

    def finished(self, name: str) -> bool:
        self._reach()
        return self.operation(name) in self.remembered

    def do(self, step: str, verb: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        self._reach()
        assert (step, verb) in (("drain", "remember"), ("undrain", "remember"))
        name = self.operation(more["operation"])
        self.lines.append(f"remember {name}")
        return {"document": self.remembered.setdefault(name, arguments["document"])}

    def log(self, message: str, level: int = 20) -> None:
        self.lines.append(f"{level} {message}")

    def log_unexpected(self, error: Exception) -> None:
        self.lines.append(repr(error))

    def _reach(self) -> None:
        if self.near.lost:
            raise HostUnreachable("The link is gone.")


@pytest.fixture
def run(router: Router) -> Run:
    host = Host(address="127.0.0.1")
    service = Drains(
        host=host,
        unit="vllm",
        environment="/opt/env",
        port=router.port,
        drain=router.hook(body="out", bearer=SECRET),
        undrain=router.hook(body="in", bearer=SECRET),
        drain_deadline_seconds=5,
    )
    return Run(service)


@pytest.fixture(autouse=True)
def no_prefect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `put_back` call the step's function, without a task around it."""
    monkeypatch.setattr(undraining, "undrain", put_in)


def bodies(router: Router) -> list[str]:
    return [body for method, _, _, body in router.calls if method == "POST"]


def test_a_service_without_hooks_is_left_alone(run: Run, router: Router) -> None:
    run.service = run.service.model_copy(update={"drain": None})
    assert take_out(run, "127.0.0.1") == Drained()
    assert put_back(run, serving=True) == ""
    assert put_back(run, serving=False) == ""
    assert (router.calls, run.lines) == ([], [])


def test_the_service_is_drained_and_put_back_once_each(run: Run, router: Router) -> None:
    router.metrics = [IDLE.replace("running 0", "running 2"), IDLE]
    drained = take_out(run, "127.0.0.1")
    assert (drained.requests_left, drained.hook) == (0, True)
    assert 0.5 <= drained.seconds < 5
    assert run.lines[0] == "remember r1/draining"
    assert "waiting for 2 requests" in run.lines[2]
    assert run.lines[-1] == "remember r1/drained"
    with run.in_phase("attempt-2"):
        assert take_out(run, "127.0.0.1") == drained
    assert bodies(router) == ["out"]
    assert put_back(run, serving=True) == ""
    assert put_back(run, serving=True) == ""
    assert bodies(router) == ["out", "in"]
    assert SECRET not in "".join(run.lines) + json.dumps(run.remembered)


def test_requests_that_do_not_end_are_cut_off_and_that_is_said(run: Run, router: Router) -> None:
    run.service = run.service.model_copy(update={"drain_deadline_seconds": 1})
    router.metrics = [IDLE.replace("waiting 0", "waiting 4")]
    assert take_out(run, "127.0.0.1").requests_left == 4
    assert "30 4 requests are cut off: they did not end in 1 s" in run.lines


def test_metrics_that_cannot_be_read_do_not_hold_it_up(run: Run, router: Router) -> None:
    router.metrics = [""]
    assert take_out(run, "127.0.0.1").requests_left is None
    assert "30 how many requests are cut off is unknown" in run.lines
    assert sum("/metrics answers 500" in line for line in run.lines) == 3


def test_a_drain_that_fails_ends_the_step_and_is_undone(run: Run, router: Router) -> None:
    router.statuses = [403]
    with pytest.raises(StepFailed, match="status 403") as failed:
        take_out(run, "127.0.0.1")
    assert (failed.value.step, failed.value.kind) == ("drain", "hook-failed")
    assert "r1/drained" not in run.remembered
    assert put_back(run, serving=True) == ""
    assert bodies(router) == ["out", "in"]


def test_a_run_that_was_killed_in_its_hook_calls_it_again(run: Run, router: Router) -> None:
    run.remembered["r1/draining"] = {}
    take_out(run, "127.0.0.1")
    assert bodies(router) == ["out"]


def test_a_service_that_was_not_drained_is_not_put_back(run: Run, router: Router) -> None:
    assert put_back(run, serving=True) == ""
    assert put_back(run, serving=False) == ""
    assert router.calls == []


def test_a_service_that_does_not_serve_stays_out_and_that_is_said(run: Run, router: Router) -> None:
    take_out(run, "127.0.0.1")
    said = put_back(run, serving=False)
    assert said.startswith("STILL DRAINED: the service does not serve")
    assert said.endswith(f"When it serves: POST {router.url}/hook.")
    assert bodies(router) == ["out"]


def test_an_undrain_that_fails_is_said_loudly(run: Run, router: Router) -> None:
    take_out(run, "127.0.0.1")
    router.statuses, router.answer = [401], f"bad key {SECRET}"
    said = put_back(run, serving=True)
    assert said.startswith("STILL DRAINED: the undrain hook failed: ")
    assert "status 401: bad key ***" in said
    assert said.endswith(f"Do it by hand: POST {router.url}/hook.")
    assert SECRET not in said


def test_a_service_without_an_undrain_hook_is_said_to_be_out(run: Run) -> None:
    take_out(run, "127.0.0.1")
    run.service = run.service.model_copy(update={"undrain": None})
    assert put_back(run, serving=True).startswith("STILL DRAINED: ")


def test_a_lost_host_does_not_hinder_a_call_from_here(run: Run, router: Router) -> None:
    take_out(run, "127.0.0.1")
    run.near.lost = True
    assert put_back(run, serving=True) == ""
    assert bodies(router) == ["out", "in"]
    assert any("not recorded" in line for line in run.lines)


def test_a_lost_host_whose_command_undrains_is_said(run: Run) -> None:
    take_out(run, "127.0.0.1")
    hook = CommandHook(argv=["router", "add", "a b"])
    run.service = run.service.model_copy(update={"undrain": hook})
    run.near.lost = True
    said = put_back(run, serving=True)
    assert said.startswith("STILL DRAINED: the undrain hook failed: The link is gone.")
    assert said.endswith("Do it by hand: `router add 'a b'` on the host.")


def test_a_lost_host_ends_the_drain_as_a_lost_host(run: Run) -> None:
    run.near.lost = True
    with pytest.raises(HostError):
        take_out(run, "127.0.0.1")
