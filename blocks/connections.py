"""One Fabric connection to a host, kept while it lives and opened anew when it is dead."""

import logging
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fabric import Config, Connection
from fabric.runners import Remote
from paramiko import (
    AuthenticationException,
    BadHostKeyException,
    RejectPolicy,
    SSHException,
    Transport,
)
from paramiko.ssh_exception import NoValidConnectionsError

from blocks.errors import (
    AuthenticationRefused,
    ConfigurationError,
    HostKeyRejected,
    HostUnreachable,
    RedeployError,
)

USUAL_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
KEEPALIVE_SECONDS = 5
PIECE_BYTES = 1 << 16
DEAD_LINK_SECONDS = 15
"""A link on which nothing was acknowledged for so long is dead, whatever TCP still hopes."""

# What paramiko would print of a failure is raised as an error of ours.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_LEFT = "This call did nothing on the host."


@dataclass(frozen=True)
class Target:
    """Where to connect to, as whom, and whose keys are believed."""

    address: str
    port: int
    user: str
    key_file: str | None
    known_hosts: str | None
    connect_seconds: float
    passphrase: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The target as a person would write it."""
        return f"{self.user}@{self.address}:{self.port}"


class NotSent(SSHException):  # type: ignore[misc]
    """There was a connection, but no channel for the command: the link is dead."""


class WholeInput(Remote):  # type: ignore[misc]
    """A runner that sends its input, and takes output, as fast as the other side does.

    Invoke's own copies one character each 10 ms, as from a keyboard: minutes for a lock file.
    """

    def start(self, *arguments: object, **options: object) -> None:
        """Open a channel and start the command; tell whether it was the channel that failed."""
        try:
            super().start(*arguments, **options)
        except SSHException as error:
            if hasattr(self, "channel"):
                raise
            raise NotSent(str(error)) from error

    def respond(self, buffer_: list[str]) -> None:
        """Answer no prompt: invoke joins all output so far for that, with each piece of it."""

    def handle_stdin(self, input_: IO[bytes], output: IO[str], echo: bool = False) -> None:  # noqa: ARG002
        """Send what there is, then end the input."""
        try:
            while piece := input_.read(PIECE_BYTES):  # sendall copies what is left, each time
                self.channel.sendall(piece)
            self.channel.shutdown_write()
        except OSError:
            self.kill()  # the program ended without reading, or the link died: `wait` tells which


class Link:
    """The connection to one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._connection: Connection | None = None
        self._guard = threading.Lock()

    def connection(self) -> Connection:
        """Return a live connection, opened now if there is none.

        Raises:
            HostUnreachable: No link could be made.
            HostKeyRejected: The host's key is not a known one.
            AuthenticationRefused: The host refuses user or key.
            ConfigurationError: The key file or known_hosts cannot be read.
        """
        with self._guard:
            if self._connection is None or not self._connection.is_connected:
                self._discard()
                self._connection = _open(self.target)
            return self._connection

    def close(self) -> None:
        """Close the connection; the next use opens one again."""
        with self._guard:
            self._discard()

    def _discard(self) -> None:
        if self._connection is not None:
            self._connection.client.close()
            self._connection = None


_links: dict[Target, Link] = {}
_links_guard = threading.Lock()


def link(target: Target) -> Link:
    """Return this process's one link to the target (copies of a block share it)."""
    with _links_guard:
        return _links.setdefault(target, Link(target))


def _open(target: Target) -> Connection:
    connection = _configured(target)
    try:
        _load_known_hosts(connection, target.known_hosts)
        connection.open()
    except (OSError, EOFError, SSHException, ValueError) as error:
        connection.client.close()
        raise _as_our_error(target, error) from error
    _watch_over(connection.transport)
    return connection


def _configured(target: Target) -> Connection:
    config = Config(lazy=True, overrides={"runners": {"remote": WholeInput}})
    connect = {
        "key_filename": [target.key_file] if target.key_file else None,
        "passphrase": target.passphrase,
        "allow_agent": target.key_file is None,
        "look_for_keys": target.key_file is None,
        "banner_timeout": target.connect_seconds,
        "auth_timeout": target.connect_seconds,
        "channel_timeout": target.connect_seconds,
    }
    return Connection(
        target.address,
        user=target.user,
        port=target.port,
        config=config,
        forward_agent=False,
        connect_timeout=max(1, round(target.connect_seconds)),
        connect_kwargs={key: value for key, value in connect.items() if value is not None},
    )


def _load_known_hosts(connection: Connection, known_hosts: str | None) -> None:
    client = connection.client
    client.set_missing_host_key_policy(RejectPolicy())
    files: list[str] = [known_hosts] if known_hosts else list(USUAL_KNOWN_HOSTS)
    for name in files:
        path = Path(name).expanduser()
        if known_hosts or path.is_file():
            client.load_system_host_keys(str(path))


def _watch_over(transport: Transport) -> None:
    """Make the kernel notice a cut link: paramiko's keepalive alone does not wait for answers."""
    transport.set_keepalive(KEEPALIVE_SECONDS)
    sock = transport.sock
    if isinstance(sock, socket.socket):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_LINK_SECONDS * 1000)


def _as_our_error(target: Target, error: Exception) -> RedeployError:
    name, text = target.name, _words(error)
    if isinstance(error, FileNotFoundError | PermissionError):
        return ConfigurationError(
            f"A file needed to reach {name} could not be read: {text}.",
            "Correct key_file or known_hosts of the host block.",
            _LEFT,
        )
    if isinstance(error, BadHostKeyException) or "not found in known_hosts" in text:
        known = target.known_hosts or USUAL_KNOWN_HOSTS[0]
        return HostKeyRejected.of(
            name,
            f"The key that {name} showed is not one recorded for it in {known}: {text}.",
            "If the host is new or was set up again, check its key and record it "
            f"(ssh-keyscan -p {target.port} {target.address}); otherwise someone is in between.",
            _LEFT,
        )
    if isinstance(error, AuthenticationException | ValueError):
        keys = target.key_file or "the keys of the agent and ~/.ssh"
        return AuthenticationRefused.of(
            name,
            f"{name} does not let us in with {keys}: {text}.",
            "Check the user, the key file, its passphrase and the host's authorized_keys.",
            _LEFT,
        )
    return HostUnreachable.of(
        name,
        f"{name} could not be reached: {text}.",
        "Check that the host is up and its SSH port is open from here.",
        _LEFT,
    )


def _words(error: Exception) -> str:
    if isinstance(error, NoValidConnectionsError):
        each = (one.strerror or str(one) for one in error.errors.values())
        return ", ".join(sorted(set(each)))
    return (str(error) or type(error).__name__).rstrip(".")
