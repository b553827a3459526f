"""What the host itself asks of a service, against a real HTTP server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from blocks.supervisor import smoke as module
from blocks.supervisor.failures import Failure
from blocks.supervisor.smoke import same_build, smoke

VERSION = "0.16.0rc2.dev344+gea5f903f8"


class Answers(BaseHTTPRequestHandler):
    """Answers with the status and the body that the test says; a status of 0 hangs up."""

    protocol_version = "HTTP/1.1"
    pages: dict[str, tuple[int, object]]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = self.pages[self.path]
        if not status:
            self.close_connection = True
            return
        sent = json.dumps(body).encode()
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
        }

    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.1)
    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running.server_address[1], Mine.pages
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
    smoke("127.0.0.1", service[0], VERSION)


@pytest.mark.parametrize(
    ("page", "answer", "said"),
    [
        ("/health", (503, {}), "/health answers 503"),
        ("/version", (200, {"version": "0.15.0"}), "'0.15.0', not '0.16.0rc2"),
        ("/version", (200, ["0.15.0"]), "cannot be asked"),
        ("/version", (0, None), "cannot be asked"),
        ("/v1/models", (200, {"data": []}), "cannot be asked"),
        ("/v1/completions", (500, {}), "it answers 500"),
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
        smoke("127.0.0.1", service[0], VERSION)
    assert failed.value.kind == "not-ready"


def test_one_that_is_not_ready_yet_is_asked_again(
    service: tuple[int, dict[str, tuple[int, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, pages = service
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 10)
    pages["/health"] = (503, {})
    threading.Timer(0.3, pages.__setitem__, ["/health", (200, {})]).start()
    smoke("127.0.0.1", port, VERSION)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.16.0rc2.dev344+gea5f903f8.cu130", "0.16.0rc2.dev344+gea5f903f8", True),
        ("0.16.0rc2.dev344+gea5f903f8", "0.16.0rc2.dev344+gea5f903f8aaa", True),
        ("0.16.0rc2.dev344+gea5f903f8", "0.16.0rc2.dev344+g662205d34", False),
        ("0.16.0rc2.dev344+gea5f903f8", "0.16.0rc2.dev345+gea5f903f8", False),
        ("0.16.0+cu130", "0.16.0", True),
        ("0.16.0", "0.16.1", False),
        ("our-build", "our-build", True),
    ],
)
def test_a_build_is_the_same_whatever_its_variant(one: str, other: str, same: bool) -> None:
    assert same_build(one, other) is same
