"""Who listens on a TCP port, and where to reach it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
from pathlib import Path
from typing import NamedTuple

_LISTENING = "0A"
_HEALTH_SECONDS = 0.8
_STATUS_200 = re.compile(rb"HTTP/1\.[01] 200\b")


class Listener(NamedTuple):
    """A listening socket: its inode, and the address at which it can be reached."""

    inode: str
    address: str


def parse_listeners(table: str, port: int) -> list[Listener]:
    """Return the sockets in a `/proc/net/tcp` or `tcp6` table that listen on a port."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING:
            continue
        address, _, number = fields[1].rpartition(":")
        if int(number, 16) == port:
            found.append(Listener(fields[9], reachable(address)))
    return found


def reachable(hexadecimal: str) -> str:
    """Return the address to connect to for one that a socket is bound to."""
    words = [bytes.fromhex(hexadecimal[at : at + 8])[::-1] for at in range(0, len(hexadecimal), 8)]
    address = ipaddress.ip_address(b"".join(words))
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def listeners(port: int) -> list[Listener]:
    """Return the sockets of this host that listen on a port."""
    found = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            found += parse_listeners(Path(f"/proc/net/{name}").read_text(), port)
    return found


def held_by(pids: set[int], listener: Listener) -> bool:
    """Tell whether one of some processes holds a socket."""
    wanted = f"socket:[{listener.inode}]"
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if Path(entry.path).readlink() == Path(wanted):
                        return True
    return False


def addresses(pids: set[int], found: list[Listener]) -> list[str]:
    """Return where the sockets that some processes hold are reached, the loopback first."""
    mine = {listener.address for listener in found if held_by(pids, listener)}
    return sorted(
        mine, key=lambda one: (not ipaddress.ip_address(one).is_loopback, ":" in one, one)
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
