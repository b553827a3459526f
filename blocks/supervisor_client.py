"""The controller's side of the supervisor: put it there, ask it, wait for an operation."""

import json
import logging
import posixpath
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import SecretStr

from blocks import sudo
from blocks.errors import CommandFailed, Refused, StillRunning, SudoRefused
from blocks.host import Host, Ran
from blocks.supervisor_archive import archive

PATH = "/usr/local/sbin/redeploy-supervisor"
"""Where the supervisor lies on a host."""
OWN_PATH = ".local/bin/redeploy-supervisor"
"""Where a user has it for the services of that user, from the home folder, where SSH begins."""

_PUT = (
    f"python -m blocks.supervisor_archive | ssh root@{{address}} install -m 755 /dev/stdin {PATH}"
)
REFUSED_EXIT = 2
_NOT_FOUND_EXIT = 127
_CALL_SECONDS = 120.0
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 20.0
_TOLD_WAIT_SECONDS = 120.0
_TELL_SECONDS = 1.0

_LOG = logging.getLogger(__name__)

State = Literal["running", "succeeded", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What the host has recorded of an operation that has finished."""

    operation: str
    verb: str
    state: State
    attached: bool
    started: float
    finished: float | None
    seconds: float | None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    progress: dict[str, Any] | None = field(default=None, compare=False)


class Supervisor:
    """The supervisor of one host.

    Every call may be repeated: reading changes nothing, and the host runs an operation once
    whoever asks and however often. So a lost link is answered by asking again.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._path = OWN_PATH if host.user_units else PATH
        self._call = (self._path, "--user") if host.user_units else (self._path,)

    def install(self, say: Callable[[str], None] = _LOG.warning) -> str:
        """Put the current supervisor on the host unless it is there; return the version there.

        While an operation runs, another version is left in place and used: a second controller
        does not exchange it under a redeploy.

        Args:
            say: Told when another version is left in place, and why.

        Raises:
            HostError: The host cannot be spoken to.
            SudoRefused: The user may not put it there, or not call it.
            CommandFailed: The file could not be put there.
        """
        wanted = archive()
        found = self._installed_version()
        if found == wanted.version:
            return wanted.version
        if found is not None and (running := self._running()):
            say(
                f"The supervisor on {self.host.address} stays at version {found[:12]}, "
                f"since {', '.join(running)} runs; this program brings {wanted.version[:12]}."
            )
            return found
        try:
            if self.host.user_units:
                self.host.run(("mkdir", "-p", posixpath.dirname(OWN_PATH)), repeatable=True).check()
            self.host.put(wanted.data, self._path, 0o755)
        except SudoRefused as refused:
            raise self._not_ours_to_put(refused, found, wanted.version) from None
        if self._installed_version() != wanted.version:
            raise CommandFailed(
                f"The supervisor at {self._path} does not run as version {wanted.version[:12]}.",
                "Run `redeploy-supervisor version </dev/null` on the host: it needs Python 3.9+.",
            )
        return wanted.version

    def call(
        self,
        verb: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = _CALL_SECONDS,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Ask the supervisor and return its answer; what it tells before that goes to a caller.

        Raises:
            Refused: It refused; `kind` and `fields` say why. Nothing was changed.
            SudoRefused: The user may not call it; the hint is the line of sudoers that lets it.
            CommandFailed: It is not there, or gave no answer.
            HostError: The host cannot be spoken to.
        """
        ran = self._ask(verb, payload, timeout, on_progress)
        answer = _object(ran.stdout.strip().rpartition("\n")[2])
        if ran.exit == REFUSED_EXIT and answer is not None and "error" in answer:
            raise _refusal(answer["error"])
        if ran.exit != 0 and answer is not None and "error" in answer:
            raise CommandFailed(str(answer["error"]["message"]), str(answer["error"]["hint"]))
        if ran.exit == _NOT_FOUND_EXIT:
            raise CommandFailed(
                f"There is no supervisor at {self._path}.", "Put it there: install()."
            )
        if ran.exit != 0 or answer is None:
            if refusal := self.host.sudo_refusal(ran):
                raise self._told_what_to_allow(refusal)
            ran.check()
            raise CommandFailed(
                f"The supervisor's answer to {verb} is not JSON: {ran.stdout[:200]!r}.",
                "Check what else prints to a non-interactive SSH session of this host.",
            )
        return answer

    def ensure(
        self,
        operation: str,
        verb: str,
        arguments: Mapping[str, Any],
        *,
        holder: str,
        environment: str,
        wait_seconds: float = _LONGEST_WAIT_SECONDS,
        deadline_seconds: float | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        secrets: Mapping[str, SecretStr] | None = None,
    ) -> Outcome:
        """Have an operation done once, and wait until it has finished.

        Args:
            operation: Its name, `<redeploy id>/<step>`; the same name is the same operation.
            verb: What to do.
            arguments: The verb's arguments.
            holder: Who holds the lock on the environment.
            environment: The environment's path.
            wait_seconds: Longest wait of a single call; short ones come first.
            deadline_seconds: Longest wait of all.
            on_progress: Told each new progress, from a thread of the connection, about every
                second; the calls are longer then, since each one costs the host.
            secrets: `OPENAI_API_KEY` or `HF_TOKEN` for its process; they travel on standard input
                and are kept nowhere, so whoever asks again brings them again.

        Raises:
            Refused: The supervisor would not start it.
            StillRunning: It had not finished by the deadline; it goes on running.
            HostError: The host cannot be spoken to.
        """
        request: dict[str, Any] = {
            "operation": operation,
            "verb": verb,
            "holder": holder,
            "environment": environment,
            "arguments": dict(arguments),
        }
        if secrets:
            given = {name: secret.get_secret_value() for name, secret in secrets.items()}
            request["secrets"] = given
        began = time.monotonic()
        attached: bool | None = None
        wait = min(_FIRST_WAIT_SECONDS, wait_seconds)
        if on_progress is not None:
            request["tell_seconds"] = _TELL_SECONDS
            wait = wait_seconds = _TOLD_WAIT_SECONDS
        while True:
            answer = self.call(
                "ensure",
                {**request, "wait_seconds": wait},
                timeout=wait + _CALL_SECONDS,
                on_progress=on_progress,
            )
            attached = answer["attached"] if attached is None else attached
            outcome = _outcome({**answer, "attached": attached})
            if outcome.state != "running":
                return outcome
            spent = time.monotonic() - began
            if deadline_seconds is not None and spent >= deadline_seconds:
                raise _still_running(operation, spent)
            wait = min(wait * 2, wait_seconds)
            if deadline_seconds is not None:
                wait = min(wait, max(0.0, deadline_seconds - spent))

    def _ask(
        self,
        verb: str,
        payload: Mapping[str, Any],
        timeout: float,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> Ran:
        def take(line: str) -> None:
            told = _object(line)
            if on_progress is not None and told is not None and told.keys() == {"progress"}:
                on_progress(told["progress"])

        try:
            return self.host.run(
                (*self._call, verb),
                input=json.dumps(payload),
                timeout=timeout,
                repeatable=True,
                on_line=take if on_progress is not None else None,
                as_root=True,
            )
        except SudoRefused as refused:
            raise self._told_what_to_allow(refused) from None

    def _told_what_to_allow(self, refused: SudoRefused) -> SudoRefused:
        check = "sudo_password and sudoers" if self.host.sudo_password else "sudoers"
        hint = f"Check {check}. The line it needs: {self._line()}"
        return SudoRefused.of(refused.address, refused.message, hint, refused.left)

    def _not_ours_to_put(self, refused: SudoRefused, found: str | None, wanted: str) -> SudoRefused:
        host = self.host
        has = (
            f"{host.address} has version {(found or '')[:12]} of the supervisor, not {wanted[:12]}"
        )
        lacks = f"{host.user} may not call {PATH} on {host.address}, or it is not there"
        line = "" if found else f" The line that sudoers needs: {self._line()}"
        return SudoRefused.of(
            host.address,
            f"{has if found else lacks}, and {refused.message}",
            f"Have root put it there: `{_PUT.format(address=host.address)}`.{line}",
            refused.left,
        )

    def _line(self) -> str:
        return sudo.allowing(self.host.user, PATH, password=self.host.sudo_password is not None)

    def _running(self) -> list[str]:
        try:
            return [str(one["operation"]) for one in self.call("status", {})["running"]]
        except (Refused, CommandFailed, KeyError):
            return []  # it cannot be asked, so nobody can be using it

    def _installed_version(self) -> str | None:
        ran = self._ask("version", {}, _CALL_SECONDS)
        answer = _object(ran.stdout) if ran.exit == 0 else None
        return str(answer["version"]) if answer and "version" in answer else None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refusal(error: dict[str, Any]) -> Refused:
    refused = Refused(str(error.get("message", "Refused.")), str(error.get("hint", "")))
    refused.kind = str(error.get("kind", "unknown"))
    refused.fields = {
        key: value for key, value in error.items() if key not in ("kind", "message", "hint")
    }
    return refused


def _outcome(answer: dict[str, Any]) -> Outcome:
    return Outcome(
        operation=answer["operation"],
        verb=answer["verb"],
        state=answer["state"],
        attached=answer["attached"],
        started=answer["started"],
        finished=answer.get("finished"),
        seconds=answer.get("seconds"),
        result=answer.get("result"),
        error=answer.get("error"),
        progress=answer.get("progress"),
    )


def _still_running(operation: str, seconds: float) -> StillRunning:
    error = StillRunning(
        f"{operation} has not finished after {seconds:.0f} s.",
        "Ask again under the same name; it is not started twice.",
        "It goes on running on the host.",
    )
    error.operation, error.seconds = operation, seconds
    return error
