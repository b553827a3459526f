"""What the host itself asks of a service, against a real HTTP server."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from blocks.supervisor import serving
from blocks.supervisor import smoke as module
from blocks.supervisor.failures import Failure
from blocks.supervisor.smoke import smoke

VERSION = "0.16.0rc2.dev344+gea5f903f8"
PATIENCE, SHORT = 20.0, 1.5
IDLE = 'vllm:generation_tokens_total{{engine="0"}} 7.0\n'
BUSY = 'vllm:generation_tokens_total{{engine="0"}} {work}.0\n'
SILENT = (1, None)


class Answers(BaseHTTPRequestHandler):
    """Answers with the status and the body that the test says.

    A status of 0 hangs up; a status of 1 answers only once the test is over.
    """

    protocol_version = "HTTP/1.1"
    pages: dict[str, tuple[int, object]]
    over: threading.Event
    work = 0

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = self.pages[self.path]
        if status in (0, 1):
            self.close_connection = True
            self.over.wait(30 * status)
            return
        type(self).work += 1
        text = body.format(work=self.work) if isinstance(body, str) else json.dumps(body)
        sent = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, dict[str, tuple[int, object]]]]:
    class Mine(Answers):
        pages = {
            "/health": (200, {}),
            "/version": (200, {"version": VERSION}),
            "/v1/models": (200, {"data": [{"id": "kimi"}]}),
            "/v1/completions": (200, {"choices": [{"text": "2"}]}),
            "/metrics": (200, IDLE),
        }
        over = threading.Event()

    monkeypatch.setattr(module, "_PAUSE_SECONDS", PATIENCE)  # it is asked once
    monkeypatch.setattr(serving, "ANSWER_SECONDS", 1)
    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running.server_address[1], Mine.pages
        Mine.over.set()
        running.shutdown()


@pytest.mark.parametrize(
    ("page", "answer"),
    [
        ("/v1/completions", (200, {"choices": []})),
        ("/v1/completions", (404, {})),  # it embeds
        ("/v1/models", (401, {})),  # it wants a key
        ("/version", (200, {"version": f"{VERSION}.cu130"})),
    ],
)
def test_it_serves(
    service: tuple[int, dict[str, tuple[int, object]]], page: str, answer: tuple[int, object]
) -> None:
    service[1][page] = answer
    smoke("127.0.0.1", service[0], VERSION, PATIENCE)


@pytest.mark.parametrize(
    ("page", "answer", "said"),
    [
        ("/health", (503, {}), "/health answers 503"),
        ("/version", (200, {"version": "0.15.0"}), "'0.15.0', not '0.16.0rc2"),
        ("/version", (200, ["0.15.0"]), "/version does not say"),
        ("/version", (0, None), "/version is not answered"),
        ("/v1/models", (200, {"data": []}), "/v1/models does not say"),
        ("/v1/completions", (500, {}), "/v1/completions answers 500"),
        ("/v1/completions", (0, None), "the connection was cut"),
    ],
)
def test_it_does_not_serve(
    service: tuple[int, dict[str, tuple[int, object]]],
    page: str,
    answer: tuple[int, object],
    said: str,
) -> None:
    service[1][page] = answer
    with pytest.raises(Failure, match=said) as failed:
        smoke("127.0.0.1", service[0], VERSION, PATIENCE)
    assert failed.value.kind == "not-ready"


def test_one_that_is_not_ready_yet_is_asked_again(
    service: tuple[int, dict[str, tuple[int, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, pages = service
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.1)
    pages["/health"] = (503, {})
    threading.Timer(0.3, pages.__setitem__, ["/health", (200, {})]).start()
    smoke("127.0.0.1", port, VERSION, PATIENCE)


def test_one_that_is_too_busy_to_answer_serves(
    service: tuple[int, dict[str, tuple[int, object]]],
) -> None:
    port, pages = service
    pages.update({"/v1/completions": SILENT, "/metrics": (200, BUSY)})
    smoke("127.0.0.1", port, VERSION, SHORT)


@pytest.mark.parametrize("metrics", [(200, IDLE), (404, {}), SILENT])
def test_one_that_does_not_answer_and_works_on_nothing_does_not_serve(
    service: tuple[int, dict[str, tuple[int, object]]], metrics: tuple[int, object]
) -> None:
    port, pages = service
    pages.update({"/v1/completions": SILENT, "/metrics": metrics})
    with pytest.raises(Failure, match="nothing else is worked on"):
        smoke("127.0.0.1", port, VERSION, SHORT)


def test_another_version_is_told_at_once(
    service: tuple[int, dict[str, tuple[int, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, pages = service
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.1)
    pages["/version"] = (200, {"version": "0.15.0"})
    began = time.monotonic()
    with pytest.raises(Failure, match=r"'0\.15\.0', not"):
        smoke("127.0.0.1", port, VERSION, PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("page", ["/health", "/version", "/v1/models"])
def test_a_service_that_hangs_is_given_up_in_time(
    service: tuple[int, dict[str, tuple[int, object]]], page: str
) -> None:
    port, pages = service
    pages[page] = SILENT
    began = time.monotonic()
    with pytest.raises(Failure, match=f"{page} is not answered"):
        smoke("127.0.0.1", port, VERSION, SHORT)
    assert time.monotonic() - began < 15
