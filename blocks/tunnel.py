"""A local port that leads to a port of the host, as the host itself reaches it.

Fabric's `forward_local` ends for good at the first refused connection, and a server that is
still loading refuses every one; here a refused connection ends only itself.
"""

import contextlib
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

from paramiko import Channel, SSHException

from blocks.connections import Link
from blocks.errors import HostError

_CHUNK = 65536
_OPEN_SECONDS = 10


@contextlib.contextmanager
def tunnel(link: Link, port: int, address: str) -> Iterator[int]:
    """Yield a local port on 127.0.0.1; connections to it end at the host's `address:port`."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(SSHException, HostError, OSError, EOFError):
                transport = link.connection().transport
                channel = transport.open_channel(
                    "direct-tcpip", (address, port), self.client_address, timeout=_OPEN_SECONDS
                )
                _pump(self.request, channel)

    with _Server(("127.0.0.1", 0), Forward) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the local client sees its connection closed."""


def _pump(near: socket.socket, far: Channel) -> None:
    with contextlib.closing(far):
        while True:
            ready, _, _ = select.select([near, far], [], [], 1.0)
            if near in ready and not _copy(near, far):
                far.shutdown_write()
                while data := far.recv(_CHUNK):
                    near.sendall(data)
                return
            if far in ready and not _copy(far, near):
                return


def _copy(source: Any, target: Any) -> bool:
    data = source.recv(_CHUNK)
    if data:
        target.sendall(data)
    return bool(data)
