"""Asks a service whether it serves, from its own host and with no controller.

It is what the flow asks as far as that goes without a key: the health, the version, one token.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from typing import Any

from blocks.supervisor.failures import Failure

PATIENCE_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_PAUSE_SECONDS = 0.5
_COMMIT = re.compile(r"g([0-9a-f]{7,40})")
_NOT_ASKED = (400, 401, 403, 404, 405, 422, 501)
"""It wants a key, or is of a kind that completes nothing."""


def smoke(address: str, port: int, version: str) -> None:
    """Ask until the service serves a version, for a minute at most.

    Raises:
        Failure: It does not.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while (wrong := _wrong(address, port, version)) is not None:
        if time.monotonic() > end:
            raise Failure(
                "not-ready",
                f"{address}:{port} does not serve as it should: {wrong}.",
                "Ask it, and look into its journal.",
            )
        time.sleep(_PAUSE_SECONDS)


def same_build(one: str, other: str) -> bool:
    """Tell whether two versions are of one commit, whatever variant they were built for."""
    (a, _, of_a), (b, _, of_b) = one.partition("+"), other.partition("+")
    first, second = _COMMIT.match(of_a), _COMMIT.match(of_b)
    if a != b or first is None or second is None:
        return a == b
    shorter, longer = sorted((first[1], second[1]), key=len)
    return longer.startswith(shorter)


def _wrong(address: str, port: int, version: str) -> str | None:
    """Return what is wrong with the answers of a service, or None."""
    try:
        with contextlib.closing(
            http.client.HTTPConnection(address, port, timeout=_ANSWER_SECONDS)
        ) as connection:
            status, _ = _ask(connection, "GET", "/health")
            if status != http.client.OK:
                return f"/health answers {status}"
            _, said = _ask(connection, "GET", "/version")
            running = str(json.loads(said)["version"])
            if not same_build(running, version):
                return f"/version says {running[:80]!r}, not {version!r}"
            return _question(connection)
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        return f"it cannot be asked ({type(error).__name__})"


def _question(connection: http.client.HTTPConnection) -> str | None:
    status, listed = _ask(connection, "GET", "/v1/models")
    if status in _NOT_ASKED:
        return None
    asked = {"model": json.loads(listed)["data"][0]["id"], "prompt": "1 2 3", "max_tokens": 1}
    status, _ = _ask(connection, "POST", "/v1/completions", asked)
    return None if status == http.client.OK or status in _NOT_ASKED else f"it answers {status}"


def _ask(
    connection: http.client.HTTPConnection, verb: str, path: str, asked: Any = None
) -> tuple[int, bytes]:
    body = None if asked is None else json.dumps(asked)
    connection.request(verb, path, body, {"Content-Type": "application/json"})
    with connection.getresponse() as response:
        return response.status, response.read()
