"""The host block: a machine reached over SSH, and the one door to it."""

import contextlib
import contextvars
import io
import secrets
import shlex
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from invoke.exceptions import CommandTimedOut, ThreadException
from paramiko import SSHException
from prefect.blocks.core import Block
from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, SecretStr, model_validator
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from blocks import connections, sudo, tunnel
from blocks.errors import CommandFailed, HostUnreachable, RedeployError, SudoRefused
from blocks.types import AbsolutePath, HostAddress, Number, Port, password

_SUDO_SECONDS = 60.0


@dataclass(frozen=True)
class Ran:
    """What a command did: `exit` is its status, -1 when a signal ended it."""

    argv: tuple[str, ...]
    exit: int
    stdout: str
    stderr: str
    seconds: float

    def check(self) -> "Ran":
        """Return this if the exit status is 0, else raise CommandFailed."""
        if self.exit == 0:
            return self
        error = CommandFailed(
            f"{shlex.join(self.argv)[:200]} ended with exit status {self.exit}: "
            f"{' '.join(self.stderr.split())[-200:].rstrip('.') or 'it printed no reason'}.",
            "Run the command on the host by hand to see more.",
        )
        error.argv, error.exit = self.argv, self.exit
        error.stdout, error.stderr = self.stdout, self.stderr
        raise error


class Host(Block):
    """A machine reached over SSH, and the one door to it: all that is sent goes through here."""

    _block_type_name = "vLLM Redeploy Host"
    _block_type_slug = "vllm-redeploy-host"
    _description = "A machine that runs vLLM services, reached over SSH with strict host keys."

    model_config = ConfigDict(hide_input_in_errors=True)

    address: HostAddress = Field(title="Address", description="DNS name or IP address.")
    port: Port = Field(default=22, title="SSH port", description="Port of the SSH server.")
    user: str = Field(
        default="root",
        title="User",
        pattern=r"^[a-z_][a-z0-9_.-]*\$?$",
        description="Who logs in. Anyone but root also needs 'sudo' or 'user_units'.",
    )
    key_file: AbsolutePath | None = Field(
        default=None,
        title="Private key",
        description="Path of the private key; without it, the SSH agent and the keys in ~/.ssh.",
    )
    passphrase: SecretStr | None = Field(
        default=None,
        title="Passphrase",
        description="Passphrase of the private key, if it has one.",
    )
    known_hosts: AbsolutePath | None = Field(
        default=None,
        title="Known hosts",
        description="File with the host's key; without it, ~/.ssh/known_hosts and the system's. "
        "A key that is not in it is refused, never added.",
    )
    sudo: bool = Field(
        default=False,
        title="Use sudo",
        description="Call the supervisor by sudo, for a user who is not root.",
    )
    sudo_password: Annotated[SecretStr | None, AfterValidator(password)] = Field(
        default=None,
        title="Password for sudo",
        description="What sudo asks this user for; without it, sudo must not ask ('sudo -n').",
    )
    user_units: bool = Field(
        default=False,
        title="User units",
        description="The services are the user's own ('systemctl --user'); nothing needs root.",
    )
    connect_timeout_seconds: Number = Field(
        default=10,
        gt=0,
        le=300,
        title="Connect time-out",
        description="Longest wait for connecting, the banner, the login and a channel, each.",
    )
    link_patience_seconds: Number = Field(
        default=120,
        ge=0,
        title="Patience with the link",
        description="How long a lost link is tried again before the host is called unreachable.",
    )

    _password_tried: Ran | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _by_whose_right(self) -> Self:
        if self.sudo_password and not self.sudo:
            raise ValueError("sudo_password is for sudo = true")
        if self.user_units and (self.sudo or self.user == "root"):
            raise ValueError("user_units is for a user who is not root, without sudo")
        if self.user != "root" and not self.sudo and not self.user_units:
            raise ValueError(f"{self.user} is not root: set sudo = true, or user_units = true")
        return self

    def run(
        self,
        argv: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002
        timeout: float = 30,
        repeatable: bool = False,
        on_line: Callable[[str], None] | None = None,
        as_root: bool = False,
    ) -> Ran:
        """Run an argument vector on the host.

        As root with a `sudo_password`, a program that sudo does not ask for one finds a line before
        its input. That sudo takes the password is proven first, once.

        Args:
            argv: The program and its arguments; quoted here, never by the caller.
            input: Text for its standard input; never repeated in an error.
            timeout: Seconds after which it is given up.
            repeatable: Whether it may be sent again when the link was lost after it was sent.
            on_line: Told each line of its output when it comes, in another thread.
            as_root: Whether it is root's, by sudo where that is configured.

        Raises:
            HostUnreachable: No link for `link_patience_seconds`, or it was lost under way.
            HostKeyRejected: The host's key is not a known one.
            AuthenticationRefused: The host refuses user or key.
            SudoRefused: sudo does not take the password. Whether it lets the program run,
                `sudo_refusal` tells.
            CommandFailed: It did not end within `timeout`.
        """
        data = (input or "").encode()
        once = self._root_once if as_root else self._run_once
        return self._again(repeatable)(once, tuple(argv), data, timeout, on_line)

    def sudo_refusal(self, ran: Ran) -> SudoRefused | None:
        """Return why sudo has not let a command run; None if it is the command that ended so."""
        if not self.sudo or ran.exit != 1 or ran.stdout:
            return None
        asked, given = sudo.called(("-l", "--", *ran.argv), self.sudo_password)
        allowed = self._again(repeatable=True)(self._run_once, asked, given, _SUDO_SECONDS)
        return None if allowed.exit == 0 else self._refused(ran)

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        """Write a file on the host as root, or as a user without sudo, whole or not at all.

        Two writers do not meet, since each writes a file of its own beside it first; what a lost
        link left of one is taken away by the end.

        Raises:
            HostUnreachable: As `run` does.
            SudoRefused: The user may not write files as root.
            CommandFailed: The host could not write it.
        """
        beside: list[str] = []
        held: list[str] = []

        def once() -> None:
            token = secrets.token_hex(8)
            new = f"{path}.{token}"
            beside.append(new)
            source: tuple[str, ...] = ()
            given = data
            if self.sudo_password:  # what the file is written from must not begin with a password
                held.append(f"/tmp/redeploy-{token}")  # noqa: S108 - nobody can guess it
                hold = ("dd", f"of={held[-1]}", "conv=excl", "status=none")
                self._run_once(hold, data, 60).check()
                source, given = (f"if={held[-1]}",), b""
            for argv, input_ in (
                (("dd", *source, f"of={new}", "conv=excl,fsync", "status=none"), given),
                (("chmod", f"{mode:o}", "--", new), b""),
                (("mv", "-f", "-T", "--", new, path), b""),
            ):
                ran = self._root_once(argv, input_, 60)
                if refusal := self.sudo_refusal(ran):
                    raise refusal
                ran.check()

        try:
            self._again(repeatable=True)(once)
        finally:
            with contextlib.suppress(RedeployError):  # what failed before is what is told
                self._run_once(("rm", "-f", "--", *held), b"", 60)
                self._root_once(("rm", "-f", "--", *beside), b"", 60)

    def tunnel(self, port: int, address: str = "127.0.0.1") -> AbstractContextManager[int]:
        """Return a context that yields a local port leading to a port of the host.

        Args:
            port: The port on the host.
            address: The host's own address that it is bound to, as `watch` tells it.
        """
        return tunnel.tunnel(self._link(), port, address)

    def close(self) -> None:
        """Close the connection; the next use opens one again."""
        self._link().close()

    def _link(self) -> connections.Link:
        secret = self.passphrase.get_secret_value() if self.passphrase else None
        return connections.link(
            connections.Target(
                address=self.address,
                port=self.port,
                user=self.user,
                key_file=self.key_file,
                known_hosts=self.known_hosts,
                connect_seconds=self.connect_timeout_seconds,
                passphrase=secret,
            )
        )

    def _again(self, repeatable: bool) -> Retrying:
        return Retrying(
            retry=retry_if_exception(lambda error: _may_try_again(error, repeatable)),
            stop=stop_after_delay(self.link_patience_seconds),
            wait=wait_random_exponential(multiplier=0.5, max=5),
            reraise=True,
        )

    def _root_once(
        self,
        argv: tuple[str, ...],
        data: bytes,
        timeout: float,
        on_line: Callable[[str], None] | None = None,
    ) -> Ran:
        if not self.sudo:
            return self._run_once(argv, data, timeout, on_line)
        self._prove_password()
        asked, given = sudo.called(("--", *argv), self.sudo_password, data)
        return replace(self._run_once(asked, given, timeout, on_line), argv=argv)

    def _prove_password(self) -> None:
        """Have sudo try the password once, with nothing behind it to take for another try."""
        if self.sudo_password is None:
            return
        if self._password_tried is None:
            asked, given = sudo.called(("-v",), self.sudo_password)
            self._password_tried = self._run_once(asked, given, _SUDO_SECONDS)
        if self._password_tried.exit != 0:
            raise self._refused(self._password_tried)

    def _refused(self, ran: Ran) -> SudoRefused:
        name = self._link().target.name
        words = " ".join(ran.stderr.split())[-300:].rstrip(".") or "it gives no reason"
        return SudoRefused.of(
            name,
            f"sudo refuses {name}: {words}.",
            "Check sudo_password, and what sudoers lets this user do.",
            "Nothing was done as root.",
        )

    def _run_once(
        self,
        argv: tuple[str, ...],
        data: bytes,
        timeout: float,
        on_line: Callable[[str], None] | None = None,
    ) -> Ran:
        lines = _Lines(on_line) if on_line else None
        link = self._link()
        connection = link.connection()
        began = time.monotonic()
        try:
            with _link_errors(link):
                done = connection.run(
                    shlex.join(argv),
                    hide=True,
                    warn=True,
                    pty=False,
                    in_stream=io.BytesIO(data),
                    out_stream=lines,
                    encoding="utf-8",
                    timeout=timeout,
                )
        except CommandTimedOut as error:
            if not connection.is_connected:
                raise _lost(link.target.name, "it is gone", sent=True) from error
            raise _timed_out(argv, timeout, error.result) from None
        seconds = time.monotonic() - began
        if done.exited == -1 and not connection.is_connected:
            raise _lost(link.target.name, "it is gone", sent=True)
        if done.exited == -1 and seconds >= timeout:  # Fabric's timer ended it, and has not said so
            raise _timed_out(argv, timeout, done)
        if lines and lines.error:
            raise lines.error
        return Ran(argv, done.exited, done.stdout, done.stderr, seconds)


class _Lines:
    """Takes output as it comes and tells it line by line, in the context it was made in.

    The first error of the one who is told is kept: raised here, it would look like a lost link.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._context = contextvars.copy_context()
        self._rest = ""
        self.error: Exception | None = None

    def write(self, text: str) -> None:
        """Take in what came."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if self.error is None:
                try:
                    self._context.run(self._on_line, line)
                except Exception as error:
                    self.error = error

    def flush(self) -> None:
        """Nothing is held back but a line that has not ended."""


@contextlib.contextmanager
def _link_errors(link: connections.Link) -> Iterator[None]:
    name = link.target.name
    try:
        yield
    except connections.NotSent as error:
        link.close()
        raise _lost(name, str(error), sent=False) from error
    except (OSError, EOFError, SSHException, ThreadException) as error:
        raise _lost(name, str(error) or type(error).__name__, sent=True) from error


def _lost(name: str, why: str, *, sent: bool) -> HostUnreachable:
    when = "while a command ran" if sent else "before a command was sent"
    error = HostUnreachable(
        f"The link to {name} was lost {when}: {why.rstrip('.')}.",
        "What was started on the host goes on there, and is found by its name when it is resumed.",
    )
    error.address, error.sent = name, sent
    return error


def _timed_out(argv: tuple[str, ...], timeout: float, result: Any) -> CommandFailed:
    error = CommandFailed(
        f"{shlex.join(argv)[:200]} had not ended after {timeout:g} s.",
        "Look on the host whether it still runs.",
    )
    error.argv = argv
    error.stdout, error.stderr = result.stdout, result.stderr
    return error


def _may_try_again(error: BaseException, repeatable: bool) -> bool:
    if not isinstance(error, HostUnreachable):
        return False
    cause = error.__cause__
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
        return False  # a name that nobody knows is a mistake, not a passing fault
    return repeatable or not error.sent
