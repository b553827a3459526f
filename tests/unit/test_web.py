"""One deadline over all of a request, whatever the server does with its time."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tasks import web

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
SECONDS = 0.4


@contextmanager
def server(answer: bytes, pause: float = 0.0) -> Iterator[str]:
    """Answer one request with these bytes, pausing after each, then keep the connection open."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                for one in [answer] if not pause else [bytes([byte]) for byte in answer]:
                    try:
                        connection.sendall(one)
                    except OSError:
                        return
                    if over.wait(pause):
                        return
                over.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        thread.join()


@pytest.mark.parametrize("answer", [OK, OK + b"x" * 50], ids=["headers", "body"])
def test_a_server_that_trickles_is_not_waited_for(answer: bytes) -> None:
    began = time.monotonic()
    with server(answer, pause=0.02) as url, pytest.raises(httpx.TimeoutException):
        web.ask(url, seconds=SECONDS)
    assert SECONDS <= time.monotonic() - began < SECONDS + 2


def test_the_beginning_will_do_where_that_is_said() -> None:
    with server(OK + b"beginning") as url:
        page = web.ask(url, seconds=SECONDS, partly=True)
    assert (page.status, page.body, page.whole) == (200, b"beginning", False)


def test_no_more_is_read_than_was_asked_for() -> None:
    with server(OK + b"x" * 100) as url:
        page = web.ask(url, seconds=5, most=10)
    assert (page.text, page.whole) == ("x" * 10, False)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        page.json()


def test_what_is_built_to_break_its_reader_is_no_json() -> None:
    page = web.Page(200, b"[" * 100_000, whole=True)
    with pytest.raises(ValueError, match="too deeply"):
        page.json()


def test_who_looks_meanwhile_can_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "LOOK_SECONDS", 0.05)
    looks = []

    def look() -> None:
        looks.append(time.monotonic())
        if len(looks) == 3:
            raise LookupError("somebody else listens there")

    began = time.monotonic()
    with server(b"") as url, pytest.raises(LookupError):
        web.ask(url, seconds=30, meanwhile=look)
    assert time.monotonic() - began < 5


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(httpx.InvalidURL):
        web.ask("http://[::1/", seconds=1)


def test_https_without_trusted_certificates_is_not_asked() -> None:
    with pytest.raises(ValueError, match="trusted"):
        web.ask("https://127.0.0.1:1/", seconds=1)
