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
from dataclasses import dataclass
from typing import Any

from invoke.exceptions import CommandTimedOut, ThreadException
from paramiko import SSHException
from prefect.blocks.core import Block
from pydantic import Field, SecretStr
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from blocks import connections, tunnel
from blocks.errors import CommandFailed, HostUnreachable
from blocks.types import AbsolutePath, HostAddress, Port


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
    """A machine reached over SSH. `run` is the only method that sends it a command."""

    _block_type_name = "vLLM Redeploy Host"
    _block_type_slug = "vllm-redeploy-host"
    _description = "A machine that runs vLLM services, reached over SSH with strict host keys."

    address: HostAddress = Field(title="Address", description="DNS name or IP address.")
    port: Port = Field(default=22, title="SSH port", description="Port of the SSH server.")
    user: str = Field(
        default="root",
        title="User",
        pattern=r"^[a-z_][a-z0-9_.-]*\$?$",
        description="Who logs in. Anyone but root also needs 'sudo'.",
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
        description="Call the supervisor by 'sudo -n', for a user who is not root.",
    )
    connect_timeout_seconds: float = Field(
        default=10,
        gt=0,
        le=300,
        title="Connect time-out",
        description="Longest wait for connecting, the banner, the login and a channel, each.",
    )
    link_patience_seconds: float = Field(
        default=120,
        ge=0,
        title="Patience with the link",
        description="How long a lost link is tried again before the host is called unreachable.",
    )

    def run(
        self,
        argv: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002
        timeout: float = 30,
        repeatable: bool = False,
        on_line: Callable[[str], None] | None = None,
    ) -> Ran:
        """Run an argument vector on the host.

        Args:
            argv: The program and its arguments; quoted here, never by the caller.
            input: Text for its standard input; never repeated in an error.
            timeout: Seconds after which it is given up.
            repeatable: Whether it may be sent again when the link was lost after it was sent.
            on_line: Told each line of its output when it comes, in another thread.

        Raises:
            HostUnreachable: No link for `link_patience_seconds`, or it was lost under way.
            HostKeyRejected: The host's key is not a known one.
            AuthenticationRefused: The host refuses user or key.
            CommandFailed: It did not end within `timeout`.
        """
        data = (input or "").encode()
        return self._again(repeatable)(self._run_once, tuple(argv), data, timeout, on_line)

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        """Write a file on the host, atomically: it is there whole or not at all.

        Two writers do not meet, since each writes a file of its own beside it first; what a lost
        link left of one is taken away by the end.

        Raises:
            HostUnreachable: As `run` does.
            CommandFailed: The host could not write it.
        """
        sudo = ("sudo", "-n") if self.sudo else ()
        beside: list[str] = []

        def once() -> None:
            new = f"{path}.{secrets.token_hex(8)}"
            beside.append(new)
            for argv, given in (
                (("dd", f"of={new}", "conv=excl,fsync", "status=none"), data),
                (("chmod", f"{mode:o}", "--", new), b""),
                (("mv", "-f", "-T", "--", new, path), b""),
            ):
                self._run_once((*sudo, *argv), given, 60).check()

        try:
            self._again(repeatable=True)(once)
        finally:
            with contextlib.suppress(HostUnreachable):
                self._run_once((*sudo, "rm", "-f", "--", *beside), b"", 60)

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
