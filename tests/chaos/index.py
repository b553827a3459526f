"""A wheel index between a host and the real one, that can be gone, or send broken wheels."""

import contextlib
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from deployments.sandbox import network


class Index:
    """Passes on what it is asked for.

    Args:
        upstream: the URL of the real index.

    Attributes:
        gone: it hangs up on everybody.
        corrupt: its wheels are broken.
        struck: how often somebody met one of these.
        instead: what is served for a path that ends so; None: there is no such page.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.gone = False
        self.corrupt = False
        self.struck = 0
        self.instead: dict[str, bytes | None] = {}
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((network.GATEWAY, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://{network.GATEWAY}:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request, or hang up."""
        if self.gone:
            self.struck += 1
            request.close_connection = True
            return
        path = request.path.partition("?")[0]
        for end, page in self.instead.items():
            if path.endswith(end):
                _send(request, HTTPStatus.NOT_FOUND if page is None else HTTPStatus.OK, page or b"")
                return
        named = request.headers.get("Range")
        answer = httpx.request(
            request.command,
            f"{self.upstream}{request.path}",
            headers={"Range": named} if named else {},
            trust_env=False,
        )
        body = answer.content
        if self.corrupt and path.endswith(".whl"):
            self.struck += 1
            body = body[:-64] + bytes(64)
        request.send_response(answer.status_code)
        for name in ("Content-Type", "Content-Range", "Accept-Ranges", "ETag"):
            if name in answer.headers:
                request.send_header(name, answer.headers[name])
        length = answer.headers.get("Content-Length") if request.command == "HEAD" else len(body)
        request.send_header("Content-Length", str(length))
        request.end_headers()
        if request.command == "GET" and answer.status_code != HTTPStatus.NOT_MODIFIED:
            with contextlib.suppress(ConnectionError):  # who asked was killed
                request.wfile.write(body)

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def _send(request: BaseHTTPRequestHandler, status: HTTPStatus, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "text/html")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body)
