"""Asks a service whether it serves, from its own host and with no controller.

It is what the flow asks as far as that goes without a key: the health, the version, one token.
"""

from __future__ import annotations

import json
import time
from typing import Any

from blocks.supervisor import serving, talk
from blocks.supervisor.failures import Failure
from tasks.startup.builds import same_build

_PAGE_SECONDS = 30.0
_PAUSE_SECONDS = 0.5
_OK, _SERVER_ERROR = 200, 500
_NOT_ASKED = (400, 401, 403, 404, 405, 422, 501)
"""It wants a key, or is of a kind that completes nothing."""


class _NotYet(Exception):
    """It does not answer as it should, and may do so in a moment."""


def smoke(address: str, port: int, version: str, patience: float) -> None:
    """Ask until the service serves a version.

    One that is too busy for our question serves if it gets on with its work.

    Args:
        address: Where it listens.
        port: And on which port.
        version: What it has to be.
        patience: How long to ask, in seconds; then, for some seconds, whether it gets on.

    Raises:
        Failure: It does not.
    """
    asked = _Asked(address, port, time.monotonic() + patience)
    while True:
        try:
            return _check(asked, version)
        except _NotYet as wrong:
            if asked.left() <= _PAUSE_SECONDS:
                raise _not_ready(asked, str(wrong)) from None
        time.sleep(_PAUSE_SECONDS)


class _Asked:
    """The service that is asked, and until when."""

    def __init__(self, address: str, port: int, end: float) -> None:
        self.address, self.port, self._end = address, port, end

    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def get(self, path: str) -> talk.Answer:
        answer = talk.get(self.address, self.port, path, min(_PAGE_SECONDS, self.left()))
        if answer is None:
            raise _NotYet(f"{path} is not answered")
        return answer


def _check(asked: _Asked, version: str) -> None:
    _require_ok("/health", asked, asked.get("/health").status)
    page = asked.get("/version")
    _require_ok("/version", asked, page.status)
    running = _told("/version", page, "version")
    if not same_build(running, version):
        raise _not_ready(asked, f"/version says {running[:80]!r}, not {version!r}")
    listed = asked.get("/v1/models")
    if listed.status not in _NOT_ASKED:
        _require_ok("/v1/models", asked, listed.status)
        _question(asked, _told("/v1/models", listed, "data", 0, "id"))


def _question(asked: _Asked, model: str) -> None:
    """Ask for one token."""
    answer = talk.completion(asked.address, asked.port, model, None, asked.left())
    if answer is not None:
        if answer.status not in _NOT_ASKED:
            _require_ok("/v1/completions", asked, answer.status)
        return
    if asked.left() > 0:
        raise _NotYet("/v1/completions is not answered: the connection was cut")
    if not serving.gets_on(asked.address, asked.port):
        raise _NotYet("/v1/completions is not answered, and nothing else is worked on")


def _require_ok(path: str, asked: _Asked, status: int) -> None:
    if status >= _SERVER_ERROR:
        raise _NotYet(f"{path} answers {status}")
    if status != _OK:
        raise _not_ready(asked, f"{path} answers {status}")


def _told(path: str, answer: talk.Answer, *keys: str | int) -> str:
    """Return what a page of JSON says at some place."""
    try:
        value: Any = json.loads(answer.body)
        for key in keys:
            value = value[key]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _NotYet(f"{path} does not say what it should") from None
    return str(value)


def _not_ready(asked: _Asked, wrong: str) -> Failure:
    return Failure(
        "not-ready",
        f"{talk.authority(asked.address, asked.port)} does not serve as it should: {wrong}.",
        "Ask it, and look into its journal.",
    )
