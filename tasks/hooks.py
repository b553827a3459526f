"""Call a hook: an HTTP call from the controller, or a command there or on the host.

A hook may be called again at any time: after a passing fault here, and by a resumed run that was
killed before it could write down that the hook was done. So hooks have to be idempotent.
"""

import os
import signal
import ssl
import subprocess
import tempfile
from contextlib import suppress
from typing import IO

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential_jitter
from tenacity.wait import wait_base

from blocks.errors import CommandFailed, RedeployError
from blocks.hooks import CommandHook, Hook, HttpHook
from blocks.host import Host
from tasks import web
from tasks.errors import StepFailed
from tasks.markdown import clean

TRIES = 3
PAUSES: wait_base = wait_exponential_jitter(multiplier=0.5, max=5, jitter=0.5)
TEMPORARY_FAILURE = 75  # EX_TEMPFAIL of sysexits.h
_KILL_AFTER_SECONDS = 5
_MARGIN_SECONDS = 15
_OVER_TIME = (124, 137)  # of coreutils' timeout: ended, killed
_SHOWN = 300
_KEPT_BYTES = 4096
_SHORTEST_SECRET = 4
_TOO_MANY_REQUESTS = 429
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class HookFailed(RedeployError):
    """A hook that was not done.

    Attributes:
        hook: what was called, without secrets.
        answer: what came back, cut and cleaned.
        passing: whether it is worth another try.
    """

    hook: str = ""
    answer: str = ""
    passing: bool = False


def call_for(step: str, hook: Hook, host: Host) -> None:
    """Call a hook as part of a step.

    Raises:
        StepFailed: it was not done; `answer` is what came back.
        HostError: the host that should run it could not be spoken to.
    """
    try:
        call(hook, host)
    except HookFailed as failure:
        raise StepFailed(
            step, "hook-failed", failure.message, hint=failure.hint, answer=failure.answer
        ) from failure


def call(hook: Hook, host: Host) -> None:
    """Call a hook; what may pass is tried three times, with growing, jittered pauses.

    Args:
        hook: what to call.
        host: the service's host, for a command there.

    Raises:
        HookFailed: it was not done, or nobody knows whether it was.
        HostError: the host cannot be spoken to, so that a command there was not run.
    """
    for attempt in Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, HookFailed) and error.passing),
        stop=stop_after_attempt(TRIES),
        wait=PAUSES,
        reraise=True,
    ):
        with attempt:
            if isinstance(hook, HttpHook):
                _http(hook)
            elif hook.where == "host":
                _on_host(hook, host)
            else:
                _on_controller(hook)


def _http(hook: HttpHook) -> None:
    # No proxy and no .netrc: the key in the headers is for the router alone. The system's own
    # certificates are trusted (and SSL_CERT_FILE's), since routers often have a private CA.
    trusted = ssl.create_default_context()
    headers = {"Accept-Encoding": "identity", **hook.all_headers()}
    try:
        page = web.ask(
            hook.url,
            method=hook.method,
            seconds=hook.timeout_seconds,
            headers=headers,
            content=hook.body,
            trusted=trusted,
            most=_KEPT_BYTES,
            partly=True,  # the status says it all
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        ours = isinstance(error, httpx.LocalProtocolError)  # its text shows our headers
        passing = isinstance(error, httpx.TransportError) and not ours
        why = type(error).__name__ if ours else f"{type(error).__name__}: {error}"
        raise _failed(hook, "got no answer", why, passing=passing) from None
    status = page.status
    if httpx.codes.is_success(status):
        return
    passing = status >= 500 or status == _TOO_MANY_REQUESTS
    raise _failed(hook, f"was answered with status {status}", page.text, passing=passing)


def _on_host(hook: CommandHook, host: Host) -> None:
    # Without a terminal nothing there ends with our connection, so the host watches the time.
    limits = (f"--kill-after={_KILL_AFTER_SECONDS}", f"{hook.timeout_seconds:g}")
    patience = hook.timeout_seconds + _KILL_AFTER_SECONDS + _MARGIN_SECONDS
    try:
        ran = host.run(("timeout", *limits, *hook.argv), timeout=patience, repeatable=True)
    except CommandFailed as error:
        raise _timed_out(hook, error.stdout + error.stderr) from None
    output = ran.stdout + ran.stderr
    if (ran.exit < 0 or ran.exit in _OVER_TIME) and ran.seconds >= hook.timeout_seconds:
        raise _timed_out(hook, output)
    _judge(hook, ran.exit, output)


def _on_controller(hook: CommandHook) -> None:
    # A file, not a pipe: a program that the hook leaves behind may hold it open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                hook.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_small_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(hook, "could not be started", error.strerror or str(error)) from None
        try:
            status = process.wait(hook.timeout_seconds)
        except subprocess.TimeoutExpired:
            raise _timed_out(hook, _last_of(output)) from None
        finally:
            _end(process)
        _judge(hook, status, _last_of(output))


def _small_environment() -> dict[str, str]:
    """Return what a command needs; the controller's variables may hold keys of others."""
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
    return {"PATH": os.environ.get("PATH", _PATH), "LC_ALL": "C.UTF-8", **kept}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command that is over time, with its children; one that has ended is left alone."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_of(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _KEPT_BYTES))
    return output.read(_KEPT_BYTES).decode(errors="replace")


def _judge(hook: CommandHook, status: int, output: str) -> None:
    if status == 0:
        return
    signalled = (
        "was ended by a signal" if hook.where == "host" else f"was ended by signal {-status}"
    )
    how = f"ended with exit status {status}" if status > 0 else signalled
    raise _failed(hook, how, output, passing=status == TEMPORARY_FAILURE)


def _timed_out(hook: CommandHook, output: str) -> HookFailed:
    return _failed(hook, f"had not ended after {hook.timeout_seconds:g} s", output)


def _failed(hook: Hook, how: str, answer: str, *, passing: bool = False) -> HookFailed:
    shown = _shown(hook, answer)
    error = HookFailed(
        f"The hook {hook.in_words()} {how}: {shown.rstrip('.') or 'it gave no reason'}.",
        "Call it by hand to see more.",
    )
    error.hook, error.answer, error.passing = hook.in_words(), shown, passing
    return error


def _shown(hook: Hook, answer: str) -> str:
    """Return an answer as one clean, short line; what echoes a secret of the hook loses it."""
    for secret in _secrets(hook):
        answer = answer.replace(secret, "***")
    line = " ".join(clean(answer).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _secrets(hook: Hook) -> list[str]:
    """Return the values of the headers and their single words, the longest first."""
    if isinstance(hook, CommandHook):
        return []
    values = hook.all_headers().values()
    words = {word for value in values for word in (value, *value.split())}
    return sorted((word for word in words if len(word) >= _SHORTEST_SECRET), key=len, reverse=True)
