"""Stand-in for tests; not the real vLLM: the endpoints that the product and the benchmark use."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ... import __version__
from ...v1.engine.core_client import EngineClient, EngineDeadError

WORDS = ("a", "red", "green", "host", "serves", "the", "model", "again", "and", "is", "well")
TOKEN_SECONDS = float(os.environ.get("VLLM_STANDIN_TOKEN_SECONDS", "0.01"))
PREFILL_SECONDS = float(os.environ.get("VLLM_STANDIN_PREFILL_SECONDS", "0.03"))


@dataclass(frozen=True)
class Model:
    """What is served, under which names."""

    names: tuple[str, ...]
    root: str
    max_model_len: int


@dataclass
class Counters:
    """What `/metrics` shows."""

    running: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Server(ThreadingHTTPServer):
    """An HTTP server on a socket that was bound long before."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, sock: socket.socket, engine: EngineClient, model: Model, key: str | None):
        """Take over the socket and listen on it."""
        super().__init__(sock.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.server_name, self.server_port = sock.getsockname()
        self.engine = engine
        self.model = model
        self.key = key
        self.counters = Counters()
        self.created = int(time.time())
        self.engine_is_dead = False
        self.server_activate()


def serve_http(sock: socket.socket, engine: EngineClient, model: Model, key: str | None) -> Server:
    """Listen and answer in threads; return at once."""
    server = Server(sock, engine, model, key)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    return server


class RequestRefusedError(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: HTTPStatus, message: str, kind: str) -> None:
        """Keep what goes into the answer."""
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {"message": message, "type": kind, "param": None, "code": int(status)}
        }


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Answer the reading endpoints."""
        self._answer(
            {
                "/health": self._health,
                "/ping": self._health,
                "/version": lambda: self._json({"version": __version__}),
                "/metrics": self._metrics,
                "/v1/models": self._models,
            }
        )

    def do_POST(self) -> None:
        """Answer the generating endpoints."""
        length = int(self.headers.get("Content-Length") or 0)
        self.body: bytes = self.rfile.read(length)
        self._answer(
            {
                "/v1/completions": lambda: self._generate(chat=False),
                "/v1/chat/completions": lambda: self._generate(chat=True),
            }
        )

    def _answer(self, routes: dict[str, Any]) -> None:
        path = self.path.partition("?")[0]
        try:
            if path not in routes:
                raise RequestRefusedError(HTTPStatus.NOT_FOUND, "Not Found", "NotFoundError")
            if path.startswith("/v1/") and not self._authorized():
                self._json({"error": "Unauthorized"}, HTTPStatus.UNAUTHORIZED)
                return
            routes[path]()
        except RequestRefusedError as refused:
            self._json(refused.body, refused.status)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _authorized(self) -> bool:
        key = self.server.key
        return not key or self.headers.get("Authorization") == f"Bearer {key}"

    def _health(self) -> None:
        dead = self.server.engine_is_dead
        self._send(HTTPStatus.SERVICE_UNAVAILABLE if dead else HTTPStatus.OK, b"", "text/plain")

    def _models(self) -> None:
        model = self.server.model
        data = [
            {
                "id": name,
                "object": "model",
                "created": self.server.created,
                "owned_by": "vllm",
                "root": model.root,
                "parent": None,
                "max_model_len": model.max_model_len,
            }
            for name in model.names
        ]
        self._json({"object": "list", "data": data})

    def _metrics(self) -> None:
        labels = f'{{engine="0",model_name="{self.server.model.names[0]}"}}'
        counters = self.server.counters
        values = {
            "num_requests_running": ("gauge", counters.running),
            "num_requests_waiting": ("gauge", 0),
            "kv_cache_usage_perc": ("gauge", 0),
            "prompt_tokens_total": ("counter", counters.prompt_tokens),
            "generation_tokens_total": ("counter", counters.generation_tokens),
        }
        text = "".join(
            f"# TYPE vllm:{name} {kind}\nvllm:{name}{labels} {value:.1f}\n"
            for name, (kind, value) in values.items()
        )
        self._send(HTTPStatus.OK, text.encode(), "text/plain; version=0.0.4")

    def _generate(self, *, chat: bool) -> None:
        request = self._request()
        prompt = json.dumps(request["messages"]) if chat else str(request["prompt"])
        limit = int(request.get("max_completion_tokens") or request.get("max_tokens") or 16)
        self._ask_engine()
        with self.server.counters.lock:
            self.server.counters.running += 1
        try:
            if request.get("stream"):
                self._stream(request, prompt, limit, chat=chat)
            else:
                text = "".join(self._tokens(prompt, limit))
                usage = self._usage(prompt, limit)
                self._json({**self._chunk(request, text, "length", chat=chat), "usage": usage})
        finally:
            with self.server.counters.lock:
                self.server.counters.running -= 1

    def _request(self) -> dict[str, Any]:
        try:
            request = json.loads(self.body)
            model = request.get("model") or self.server.model.names[0]
        except (ValueError, AttributeError) as error:
            raise RequestRefusedError(
                HTTPStatus.BAD_REQUEST, "The body is not a JSON object.", "BadRequestError"
            ) from error
        if model not in self.server.model.names:
            raise RequestRefusedError(
                HTTPStatus.NOT_FOUND, f"The model `{model}` does not exist.", "NotFoundError"
            )
        if "prompt" not in request and "messages" not in request:
            raise RequestRefusedError(
                HTTPStatus.BAD_REQUEST, "There is no prompt.", "BadRequestError"
            )
        return {**request, "model": model}

    def _ask_engine(self) -> None:
        """Go through the engine, so that a dead one fails and a hung one hangs the request."""
        try:
            self.server.engine.order("generate")
        except EngineDeadError as error:
            raise RequestRefusedError(
                HTTPStatus.INTERNAL_SERVER_ERROR, str(error), "InternalServerError"
            ) from error

    def _tokens(self, prompt: str, limit: int) -> Iterator[str]:
        """Yield words that depend on the prompt alone."""
        time.sleep(PREFILL_SECONDS)
        seed = hashlib.sha256(prompt.encode()).digest()
        for i in range(limit):
            if i:
                time.sleep(TOKEN_SECONDS)
            yield " " + WORDS[(seed[i % len(seed)] + i) % len(WORDS)]

    def _usage(self, prompt: str, generated: int) -> dict[str, int]:
        read = len(prompt.split())
        with self.server.counters.lock:
            self.server.counters.prompt_tokens += read
            self.server.counters.generation_tokens += generated
        return {
            "prompt_tokens": read,
            "total_tokens": read + generated,
            "completion_tokens": generated,
        }

    def _stream(self, request: dict[str, Any], prompt: str, limit: int, *, chat: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i, token in enumerate(self._tokens(prompt, limit)):
            reason = "length" if i + 1 == limit else None
            self._event(self._chunk(request, token, reason, chat=chat, delta=True))
        usage = self._usage(prompt, limit)
        if (request.get("stream_options") or {}).get("include_usage"):
            last = self._chunk(request, "", None, chat=chat, delta=True)
            self._event({**last, "choices": [], "usage": usage})
        self._piece(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, chunk: dict[str, Any]) -> None:
        self._piece(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def _piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _chunk(
        self,
        request: dict[str, Any],
        text: str,
        reason: str | None,
        *,
        chat: bool,
        delta: bool = False,
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
        if chat:
            choice["delta" if delta else "message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        kind = ("chat.completion" if chat else "text_completion") + (
            ".chunk" if chat and delta else ""
        )
        return {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": request["model"],
            "choices": [choice],
        }

    def _json(self, document: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, json.dumps(document).encode(), "application/json")

    def _send(self, status: HTTPStatus, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002
        """Log as uvicorn does."""
        status = HTTPStatus(int(code))
        peer = "{}:{}".format(*self.client_address[:2])
        line = f'INFO:     {peer} - "{self.requestline}" {status.value} {status.phrase}\n'
        os.write(1, line.encode())
