"""Who listens on a TCP port, and where to reach it."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from pathlib import Path
from typing import NamedTuple

from blocks.supervisor import proc, sock_diag
from blocks.supervisor.sock_diag import Address

_LISTENING = "0A"
_REACHED = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (a socket is bound to it, not ours)
_HEALTH_SECONDS = 0.8
_STATUS_200 = re.compile(rb"HTTP/1\.[01] 200\b")


class Listener(NamedTuple):
    """A listening socket: its inode, where it can be reached, and the address it is bound to."""

    inode: str
    address: str
    bound: str = ""


def parse_listeners(table: str, port: int) -> list[Listener]:
    """Return the sockets in a `/proc/net/tcp` or `tcp6` table that listen on a port."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING:
            continue
        address, _, number = fields[1].rpartition(":")
        if int(number, 16) == port:
            found.append(_listener(fields[9], parsed(address)))
    return found


def parsed(hexadecimal: str) -> Address:
    """Return an address that is written as the kernel's tables have it."""
    words = [bytes.fromhex(hexadecimal[at : at + 8])[::-1] for at in range(0, len(hexadecimal), 8)]
    return ipaddress.ip_address(b"".join(words))


def written(address: Address) -> str:
    """Return an address as it is written; one of IPv4 in IPv6's clothes as what it is."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def listeners(port: int) -> list[Listener]:
    """Return the sockets of this host that listen on a port."""
    with contextlib.suppress(OSError, AttributeError):
        return [_listener(inode, address) for inode, address in sock_diag.listening(port)]
    found = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            found += parse_listeners(Path(f"/proc/net/{name}").read_text(), port)
    return found


def _listener(inode: str, address: Address) -> Listener:
    bound = written(address)
    return Listener(inode, _REACHED.get(bound, bound), bound)


def held_by(pids: set[int], listener: Listener) -> bool:
    """Tell whether one of some processes holds a socket."""
    return any(listener.inode in proc.sockets(pid) for pid in pids)


def addresses(pids: set[int], found: list[Listener]) -> list[str]:
    """Return where the sockets that some processes hold are reached, the loopback first."""
    return loopback_first({listener.address for listener in found if held_by(pids, listener)})


def loopback_first(addresses: set[str]) -> list[str]:
    """Return addresses in the order in which they are tried."""
    return sorted(
        addresses, key=lambda one: (not ipaddress.ip_address(one).is_loopback, ":" in one, one)
    )


def healthy(address: str, port: int) -> bool:
    """Tell whether `/health` answers 200."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((address, port), _HEALTH_SECONDS) as connection,
    ):
        host = f"[{address}]" if ":" in address else address
        request = f"GET /health HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        return _STATUS_200.match(connection.recv(64)) is not None
    return False
