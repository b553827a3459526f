"""Readiness, against a real HTTP server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from blocks.types import Kind
from tasks.readiness import NotReady, Wanted, wait_until_ready

VERSION = "0.16.0rc2.dev344+gea5f903f8"


class Answers(BaseHTTPRequestHandler):
    """Answers what the test says; 503 as often as it says first."""

    pages: dict[str, object]
    unwell = 0
    keys: set[str | None]

    def do_GET(self) -> None:
        if type(self).unwell:
            type(self).unwell -= 1
            self.send_error(503)
            return
        if self.path.startswith("/v1/"):
            self.keys.add(self.headers.get("Authorization"))
        body = self.pages.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[Answers]]]:
    class Mine(Answers):
        pages = {
            "/health": {},
            "/version": {"version": VERSION},
            "/v1/models": {"data": [{"id": "kimi"}]},
            "/v1/completions": {"choices": [{"text": "2"}]},
        }
        keys = set()

    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}", Mine
        running.shutdown()


def ready(
    server: tuple[str, type[Answers]],
    version: str = VERSION,
    kind: Kind = Kind.AUTO,
    api_key: SecretStr | None = None,
) -> Kind:
    wanted = Wanted(version, "kimi", kind, api_key)
    return wait_until_ready(server[0], wanted, link=lambda: None)


def test_it_waits_until_the_engine_is_well(server: tuple[str, type[Answers]]) -> None:
    server[1].unwell = 2
    ready(server, api_key=SecretStr("k"))
    assert server[1].unwell == 0
    assert server[1].keys == {"Bearer k"}


@pytest.mark.parametrize(
    ("page", "body", "said"),
    [
        ("/version", {"version": "0.15.0"}, "/version says '0.15.0'"),
        ("/v1/models", {"data": [{"id": "llama"}]}, "not 'kimi'"),
        ("/v1/completions", {"choices": []}, "holds no text"),
        ("/v1/models", None, "/v1/models answers 404"),
    ],
)
def test_a_wrong_answer_ends_it_at_once(
    server: tuple[str, type[Answers]], page: str, body: object, said: str
) -> None:
    server[1].pages = {**server[1].pages, page: body}
    with pytest.raises(NotReady, match=said.replace("/", "\\/")):
        ready(server)


GARBAGE = {"choices": [{"text": "!" * 24, "finish_reason": "length"}]}
CHAT = {"choices": [{"message": {"content": "Paris."}, "finish_reason": "stop"}]}
VECTORS = {"data": [{"embedding": [0.1, 0.2]}, {"embedding": [0.3, -0.1]}]}
RANKS = {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}


def test_garbage_is_not_an_answer(server: tuple[str, type[Answers]]) -> None:
    server[1].pages = {**server[1].pages, "/v1/completions": GARBAGE}
    with pytest.raises(NotReady, match="'!' over and over"):
        ready(server)


@pytest.mark.parametrize(
    ("path", "answer", "kind"),
    [
        ("/v1/completions", {"choices": [{"text": "2"}]}, Kind.COMPLETION),
        ("/v1/chat/completions", CHAT, Kind.CHAT),
        ("/v1/embeddings", VECTORS, Kind.EMBEDDING),
        ("/v1/rerank", RANKS, Kind.RERANK),
    ],
)
def test_a_service_is_asked_what_its_model_serves(
    server: tuple[str, type[Answers]], path: str, answer: object, kind: Kind
) -> None:
    pages = {name: page for name, page in server[1].pages.items() if name != "/v1/completions"}
    server[1].pages = {**pages, path: answer}
    assert ready(server) is kind
    assert ready(server, kind=kind) is kind
    others = [one for one in Kind if one not in (kind, Kind.AUTO)]
    for other in others:
        with pytest.raises(NotReady, match="answers 404"):
            ready(server, kind=other)


def test_a_service_that_answers_nothing_is_not_ready(server: tuple[str, type[Answers]]) -> None:
    server[1].pages = {
        name: page for name, page in server[1].pages.items() if name != "/v1/completions"
    }
    with pytest.raises(NotReady, match=r"completions answers 404; .*rerank answers 404"):
        ready(server)


def test_a_page_that_is_not_json_is_said(server: tuple[str, type[Answers]]) -> None:
    server[1].pages = {**server[1].pages, "/version": "soon"}
    with pytest.raises(NotReady, match="does not answer with an object"):
        ready(server)


def test_a_variant_of_the_wheel_is_not_told_by_the_program(
    server: tuple[str, type[Answers]],
) -> None:
    ready(server, version=f"{VERSION}.cu130")


def test_a_key_that_no_header_can_hold_is_not_shown(server: tuple[str, type[Answers]]) -> None:
    with pytest.raises(NotReady, match="it cannot be asked: LocalProtocolError") as told:
        ready(server, api_key=SecretStr("top\nsecret"))
    assert "top" not in str(told.value)


class LinkLost(Exception):
    pass


def test_a_lost_link_is_not_a_service_that_is_not_ready() -> None:
    def link() -> None:
        raise LinkLost

    with pytest.raises(LinkLost):
        wait_until_ready("http://127.0.0.1:9", Wanted(VERSION), link=link)


def test_no_key_goes_to_a_proxy(
    server: tuple[str, type[Answers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    ready(server, api_key=SecretStr("k"))
    assert server[1].keys == {"Bearer k"}
