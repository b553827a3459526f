"""Hooks: what may be written down, and what calling them does, over real HTTP and processes."""

import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError

from blocks.hooks import CommandHook, Hook, HttpHook, OptionalHook
from blocks.host import Host
from blocks.service import Service
from tasks import hooks
from tasks.hooks import HookFailed, call
from tests.unit.routers import SECRET, NearHost, Router

HOOKS: TypeAdapter[Any] = TypeAdapter(OptionalHook)

pytestmark = pytest.mark.usefixtures("quickly")


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
        ({"url": "http://router", "headers": {"Content-length": "1"}}, "not yours to set"),
        (
            {"url": "http://router", "bearer": SECRET, "headers": {"authorization": "Basic x"}},
            "an Authorization header already",
        ),
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
    schema = Service.model_json_schema()
    secrets = [f"{name}.{one}" for name in ("drain", "undrain") for one in ("bearer", "headers.*")]
    assert set(secrets) <= set(schema["secret_fields"])
    kinds = [one.get("$ref", one.get("type")) for one in schema["properties"]["drain"]["anyOf"]]
    assert kinds == ["#/definitions/HttpHook", "#/definitions/CommandHook", "null"]


@pytest.mark.parametrize("headers", [None, {}, "", {"X-Key": SECRET}])
def test_a_block_comes_back_as_it_was_saved(headers: object) -> None:
    hook = HttpHook.model_validate({"url": "http://router", "bearer": "k", "headers": headers})
    host = Host(address="127.0.0.1")
    service = Service(host=host, unit="vllm", environment="/opt/env", drain=hook, undrain=hook)
    saved = service.model_dump(mode="json", context={"include_secrets": True})
    assert Service.model_validate({**saved, "host": host}).drain == hook


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


def test_a_header_that_cannot_be_sent_is_not_shown_and_not_tried_again(router: Router) -> None:
    with pytest.raises(HookFailed, match=r"got no answer: LocalProtocolError\.") as failed:
        called(router.hook(headers={"X-Key": f"{SECRET} "}))
    assert SECRET not in str(failed.value)
    assert not failed.value.passing


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


@pytest.mark.parametrize("where", ["controller", "host"])
def test_a_command_that_is_over_its_time_does_not_go_on(tmp_path: Path, where: str) -> None:
    mark = tmp_path / "mark"
    code = f"import time; time.sleep(1); open({str(mark)!r}, 'w')"
    with pytest.raises(HookFailed, match=r"had not ended after 0\.3 s"):
        called(python(code, where, timeout_seconds=0.3))
    time.sleep(1)
    assert not mark.exists()


def test_a_command_on_the_host_that_ignores_the_end_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks, "_KILL_AFTER_SECONDS", 0.2)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    began = time.monotonic()
    with pytest.raises(HookFailed, match=r"had not ended after 0\.3 s"):
        called(python(code, "host", timeout_seconds=0.3))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("status", [124, 137])
def test_a_status_of_its_own_is_not_taken_for_one_of_over_time(status: int) -> None:
    with pytest.raises(HookFailed, match=f"exit status {status}"):
        called(python(f"import sys; sys.exit({status})", "host"))


@pytest.mark.parametrize(
    ("where", "said"), [("controller", "ended by signal 9"), ("host", "ended by a signal")]
)
def test_a_signal_is_named_where_it_is_known(where: str, said: str) -> None:
    with pytest.raises(HookFailed, match=said):
        called(python("import os; os.kill(os.getpid(), 9)", where))


def test_a_failure_survives_pickling(router: Router) -> None:
    router.statuses = [404]
    with pytest.raises(HookFailed) as failed:
        called(router.hook())
    again = pickle.loads(pickle.dumps(failed.value))  # noqa: S301
    assert (str(again), again.hook) == (str(failed.value), failed.value.hook)
