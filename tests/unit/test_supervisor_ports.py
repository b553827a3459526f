"""Who listens, on real sockets."""

import contextlib
import os
import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from blocks.supervisor import ports
from blocks.supervisor.ports import Listener

TOLD = ("fd00::7", "::1", "10.0.0.7", "127.0.0.1")


class Answers(socketserver.BaseRequestHandler):
    status = b"200 OK"

    def handle(self) -> None:
        self.request.recv(1000)
        self.request.sendall(b"HTTP/1.1 " + self.status + b"\r\nContent-Length: 0\r\n\r\n")


class Unwell(Answers):
    status = b"503 Service Unavailable"


@contextlib.contextmanager
def serving(address: str, handler: type[Answers] = Answers) -> Iterator[int]:
    class Server(socketserver.ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        allow_reuse_address = True

    try:
        server = Server((address, 0), handler)
    except OSError as error:
        pytest.skip(f"{address} cannot be listened on here: {error}")
    with server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


@pytest.mark.parametrize(
    ("bound", "reached"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "::1"), ("::", "::1")],
)
def test_a_listener_is_found_reached_and_known_as_ours(bound: str, reached: str) -> None:
    with serving(bound) as port:
        (listener,) = ports.listeners(port)
        assert listener.address == reached
        assert ports.held_by({os.getpid()}, listener)
        assert not ports.held_by({1 << 22}, listener)
        assert ports.healthy(reached, port)


def test_the_loopback_is_told_first() -> None:
    with serving("::") as port:
        found = [Listener(one.inode, address) for one in ports.listeners(port) for address in TOLD]
        assert ports.addresses({os.getpid()}, found) == ["127.0.0.1", "::1", "10.0.0.7", "fd00::7"]
        assert ports.addresses({1 << 22}, found) == []


def test_a_bound_socket_that_does_not_listen_is_no_listener() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert ports.listeners(port) == []
        assert not ports.healthy("127.0.0.1", port)


def test_503_is_not_healthy() -> None:
    with serving("127.0.0.1", Unwell) as port:
        assert not ports.healthy("127.0.0.1", port)


def test_one_that_never_answers_is_given_up_soon() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        assert not ports.healthy("127.0.0.1", mute.getsockname()[1])
