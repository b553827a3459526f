"""Who listens in a service's place, on real sockets."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.supervisor import cgroups, holders, ports, sock_diag
from blocks.supervisor.holders import PortLook, addresses_wanted, in_place_of

VLLM = ["/opt/vllm/bin/python", "/opt/vllm/bin/vllm", "serve", "/m"]
LISTEN = """
import socket, sys
one = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
one.bind((sys.argv[1], int(sys.argv[2])))
one.listen()
print("listens", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def listener(address: str, port: int) -> Iterator[int]:
    command = [sys.executable, "-c", LISTEN, address, str(port), "--api-key", "sk-hidden-12345678"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listens\n"
        yield process.pid
        process.kill()


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        ([*VLLM, "--host", "10.0.0.7"], ("10.0.0.7",)),
        ([*VLLM, "--host=::1"], ("::1",)),
        ([*VLLM, "--host", "localhost"], ("127.0.0.1", "::1")),
        (VLLM, ("0.0.0.0",)),
        (["python3", "-m", "vllm.entrypoints.openai.api_server"], ("0.0.0.0",)),
        ([*VLLM, "--config", "/etc/vllm.yaml"], ("127.0.0.1", "::1")),
        ([*VLLM, "--host", "gpu-1.example"], ("127.0.0.1", "::1")),
        ([*VLLM, "--host"], ("0.0.0.0",)),
        (["/opt/start.sh"], ("127.0.0.1", "::1")),
        ([], ("127.0.0.1", "::1")),
    ],
)
def test_where_a_command_will_listen(argv: list[str], wanted: tuple[str, ...]) -> None:
    assert addresses_wanted(argv) == wanted


@pytest.mark.parametrize(
    ("bound", "wanted", "in_place"),
    [
        ("0.0.0.0", "127.0.0.1", True),
        ("::", "127.0.0.1", True),
        ("::", "10.0.0.7", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.7", "0.0.0.0", True),
        ("10.0.0.7", "127.0.0.1", False),
        ("10.0.0.7", "10.0.0.8", False),
        ("0.0.0.0", "::1", False),
        ("::1", "0.0.0.0", False),
    ],
)
def test_who_gets_the_connections_of_another(bound: str, wanted: str, in_place: bool) -> None:
    assert in_place_of(bound, [wanted]) is in_place


def test_somebody_else_is_named_and_his_secrets_are_not(port: int) -> None:
    with listener("127.0.0.1", port) as pid:
        (holder,) = PortLook(port).look(None, list).others
        assert (holder["pid"], holder["address"]) == (pid, "127.0.0.1")
        assert "--api-key ***" in holder["command"]
        said = holders.sentence(port, [holder])
        assert said.startswith(f"port {port} is held by another process: {pid} (")


def test_somebody_on_another_address_is_in_nobodys_way(port: int) -> None:
    with listener("127.0.0.2", port):
        assert PortLook(port).look(None, lambda: ["--host", "127.0.0.1"]) == ([], [])
        assert PortLook(port).look(None, lambda: ["--host", "127.0.0.2"]).others


def test_what_the_service_listens_on_counts_more_than_what_it_was_told(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "members", lambda _: {os.getpid()})
    with socket.socket() as own, listener("127.0.0.2", port):
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind(("127.0.0.1", port))
        own.listen()
        found = PortLook(port).look("/its/group", lambda: ["--host", "127.0.0.2"])
    assert found == (["127.0.0.1"], [])


def test_a_socket_of_somebody_on_another_address_is_not_looked_for_again_and_again(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def members(group: str) -> set[int]:
        read.append(group)
        return {os.getpid()}

    monkeypatch.setattr(cgroups, "members", members)
    look = PortLook(port)
    with listener("127.0.0.2", port):
        for _ in range(20):
            assert look.look("/its/group", lambda: ["--host", "127.0.0.1"]) == ([], [])
    assert len(read) == 2


def test_a_socket_that_is_passed_on_to_the_service_becomes_its_own(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    members: set[int] = set()
    monkeypatch.setattr(cgroups, "members", lambda _: members)
    monkeypatch.setattr(holders, "_LOOK_AGAIN_SECONDS", 0.2)
    look = PortLook(port)
    with socket.create_server(("127.0.0.2", port)):
        for _ in range(3):
            assert look.look("/its/group", lambda: ["--host", "127.0.0.1"]) == ([], [])
        members.add(os.getpid())
        assert look.look("/its/group", lambda: ["--host", "127.0.0.1"]) == ([], [])
        time.sleep(0.25)
        found = look.look("/its/group", lambda: ["--host", "127.0.0.1"])
    assert found == (["127.0.0.2"], [])


def test_who_is_in_the_way_is_looked_at_anew_each_time(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    members: set[int] = set()
    monkeypatch.setattr(cgroups, "members", lambda _: members)
    look = PortLook(port)
    with socket.create_server(("127.0.0.1", port)):
        for _ in range(3):
            assert look.look("/its/group", list).others
        members.add(os.getpid())
        assert look.look("/its/group", list) == (["127.0.0.1"], [])


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_the_kernel_tells_the_same_as_its_tables(address: str, port: int) -> None:
    try:
        with listener(address, port):
            told = [(one.inode, str(one.address)) for one in sock_diag.listening(port)]
            tables = [
                (one.inode, one.bound)
                for name in ("tcp", "tcp6")
                for one in ports.parse_listeners(Path(f"/proc/net/{name}").read_text(), port)
            ]
    except (OSError, AssertionError) as error:
        pytest.skip(f"{address} cannot be listened on here: {error}")
    assert told == tables
    assert told[0][1] == address
    assert sock_diag.listening(port) == []
