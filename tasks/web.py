"""One HTTP request with one deadline over all of it: a server that trickles holds nobody up."""

import json as json_
import math
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

LARGEST_BYTES = 16_000_000
LOOK_SECONDS = 5.0
_MARGIN_SECONDS = 0.05


@dataclass(frozen=True)
class Page:
    """An answer.

    Attributes:
        status: its status.
        body: what was read of it, not decoded.
        whole: whether that is all.
    """

    status: int
    body: bytes
    whole: bool

    @property
    def text(self) -> str:
        """The body as text, whatever it holds."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            ValueError: it is none, not whole, or built to be too much for whoever reads it.
        """
        if not self.whole:
            raise ValueError(f"more than {len(self.body)} bytes")
        try:
            return json_.loads(self.body)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def ask(
    url: str,
    *,
    seconds: float,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    content: str | None = None,
    json: object = None,
    most: int = LARGEST_BYTES,
    trusted: ssl.SSLContext | None = None,
    partly: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> Page:
    """Send one request and return the answer. No proxy, no .netrc and no redirect is followed.

    Args:
        url: what is asked.
        seconds: the deadline, for connecting, sending and reading together.
        method: how.
        headers: sent with it.
        content: sent as it is.
        json: or this, as JSON.
        most: bytes after which no more is read.
        trusted: whose certificates count; needed for https.
        partly: whether the beginning of the body will do where the rest does not come in time.
        meanwhile: called every few seconds while there is no answer; what it raises ends it.

    Raises:
        httpx.HTTPError: there was no answer in time, or none that is HTTP.
        httpx.InvalidURL: this is no address.
    """
    if url.startswith("https:") and trusted is None:
        raise ValueError("https is asked with certificates that are trusted.")

    async def send() -> Page:
        with anyio.fail_after(seconds) as time:
            async with (
                httpx.AsyncClient(
                    timeout=seconds, trust_env=False, verify=trusted or False
                ) as client,
                client.stream(method, url, headers=headers, content=content, json=json) as response,
            ):
                body, whole = await _read(response, most, time.deadline if partly else None)
                return Page(response.status_code, body, whole)

    with start_blocking_portal() as portal:
        try:
            return _wait(portal.start_task_soon(send), meanwhile)
        except TimeoutError:
            raise httpx.ReadTimeout(f"no whole answer within {seconds:g} s") from None


def _wait(answer: "Future[Page]", meanwhile: Callable[[], object] | None) -> Page:
    while meanwhile is not None:
        ready, _ = wait([answer], LOOK_SECONDS)
        if ready:
            break
        try:
            meanwhile()
        except BaseException:
            answer.cancel()
            raise
    return answer.result()


async def _read(response: httpx.Response, most: int, end: float | None) -> tuple[bytes, bool]:
    """Return the body, or its beginning, and whether that is all; after `end` what there is."""
    parts: list[bytes] = []
    size = 0
    with anyio.move_on_at(math.inf if end is None else end - _MARGIN_SECONDS) as time:
        async for chunk in response.aiter_bytes():
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                break
    return b"".join(parts)[:most], size <= most and not time.cancelled_caught
