"""A static file server that uv's many connections do not overrun. Run by its path, or imported."""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    """Keeps connections open, sends at once and is silent."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # header and body leave in one packet

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Serves a folder."""

    request_queue_size = 512  # the default of 5 makes a client wait a second for its turn

    def __init__(self, address: str, port: int, folder: str) -> None:
        """Listen on an address."""
        super().__init__((address, port), partial(Handler, directory=folder))


if __name__ == "__main__":
    Server(sys.argv[1], int(sys.argv[2]), sys.argv[3]).serve_forever()
