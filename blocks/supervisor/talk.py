"""Asks a service over HTTP, with one deadline for all of it: a hung one does not hang us."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from typing import NamedTuple

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
_LARGEST = 4 << 20


class Answer(NamedTuple):
    """The status of an answer, and what came of it within the time."""

    status: int
    body: bytes


def authority(address: str, port: int) -> str:
    """Return address and port as they stand in a URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def get(address: str, port: int, path: str, seconds: float) -> Answer | None:
    """Return the answer to a GET, or None if none came."""
    return _ask(address, port, f"GET {path} HTTP/1.1\r\n", b"", seconds)


def completion(
    address: str, port: int, model: str, key: str | None, seconds: float
) -> Answer | None:
    """Ask for one token and return the answer, or None if none came."""
    asked = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}
    bearer = f"Authorization: Bearer {key}\r\n" if key else ""
    head = f"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n{bearer}"
    return _ask(address, port, head, json.dumps(asked).encode(), seconds)


def _ask(address: str, port: int, head: str, body: bytes, seconds: float) -> Answer | None:
    deadline = time.monotonic() + seconds
    host = f"Host: {authority(address, port)}\r\nConnection: close\r\n"
    request = f"{head}{host}Content-Length: {len(body)}\r\n\r\n".encode() + body
    raw = b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((address, port), seconds) as connection,
    ):
        connection.sendall(request)
        while len(raw) < _LARGEST and (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            chunk = connection.recv(65536)
            if not chunk:
                break
            raw += chunk
    found = _STATUS.match(raw)
    return Answer(int(found[1]), raw.partition(b"\r\n\r\n")[2]) if found else None
