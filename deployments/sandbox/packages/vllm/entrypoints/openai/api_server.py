"""Stand-in for tests; not the real vLLM: the endpoints that the product and the benchmark use."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ... import __version__
from ...standin import answers
from ...standin.model import EMBED, GENERATE, Model
from ...v1.engine.core_client import EngineClient, EngineDeadError
from ...v1.metrics.loggers import Stats
from ..pooling import serving as pooling

TOKEN_SECONDS = float(os.environ.get("VLLM_STANDIN_TOKEN_SECONDS", "0.01"))
PREFILL_SECONDS = float(os.environ.get("VLLM_STANDIN_PREFILL_SECONDS", "0.03"))
GUARDED = ("/v1", "/v2")
WRONG_VERSION = "0.0.1.dev1+gdeadbeef0"


class Server(ThreadingHTTPServer):
    """An HTTP server on a socket that was bound long before; `wrong` is how it answers."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, sock: socket.socket, engine: EngineClient, model: Model, key: str | None):
        """Take over the socket; nobody listens on it yet."""
        super().__init__(sock.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.server_name, self.server_port = sock.getsockname()[:2]
        self.engine = engine
        self.model = model
        self.key = key
        self.stats = Stats(model.names[0], model.max_num_seqs)
        self.created = int(time.time())
        self.engine_is_dead = False
        self.wrong: str | None = None

    def serve(self) -> None:
        """Listen and answer in threads; return at once."""
        self.server_activate()
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()


class RequestRefusedError(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: HTTPStatus, message: str, kind: str) -> None:
        """Keep what goes into the answer."""
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {"message": message, "type": kind, "param": None, "code": int(status)}
        }


class BadRequestError(RequestRefusedError):
    """A request that makes no sense."""

    def __init__(self, message: str) -> None:
        """Answer 400."""
        super().__init__(HTTPStatus.BAD_REQUEST, message, "BadRequestError")


Routes = dict[str, Callable[[], None]]


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
                "/version": self._version,
                "/metrics": self._metrics,
                "/v1/models": self._models,
            }
        )

    def do_POST(self) -> None:
        """Answer the endpoints of the model's kind; the others do not exist then."""
        length = int(self.headers.get("Content-Length") or 0)
        self.body: bytes = self.rfile.read(length)
        self._answer(self._generating() if self.server.model.task == GENERATE else self._pooling())

    def _generating(self) -> Routes:
        return {
            "/v1/completions": lambda: self._generate(chat=False),
            "/v1/chat/completions": lambda: self._generate(chat=True),
        }

    def _pooling(self) -> Routes:
        """Return the routes of an embedding model, which scores too, or of a reranker."""
        reranked = lambda: self._pool(pooling.rerank, "query", "documents")  # noqa: E731
        scored = lambda: self._pool(pooling.score)  # noqa: E731
        routes: Routes = {
            **dict.fromkeys(("/rerank", "/v1/rerank", "/v2/rerank"), reranked),
            **dict.fromkeys(("/score", "/v1/score"), scored),
        }
        if self.server.model.task == EMBED:
            routes["/v1/embeddings"] = lambda: self._pool(pooling.embed, "input")
        return routes

    def _answer(self, routes: Routes) -> None:
        path = self.path.partition("?")[0]
        try:
            if path.startswith(GUARDED) and not self._authorized():
                self._json({"error": "Unauthorized"}, HTTPStatus.UNAUTHORIZED)
            elif path not in routes:
                self._json({"detail": "Not Found"}, HTTPStatus.NOT_FOUND)
            else:
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

    def _version(self) -> None:
        is_wrong = self.server.wrong == "wrong-version"
        self._json({"version": WRONG_VERSION if is_wrong else __version__})

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
        text = self.server.stats.text()
        self._send(HTTPStatus.OK, text.encode(), "text/plain; version=0.0.4")

    def _generate(self, *, chat: bool) -> None:
        request = self._request("messages" if chat else "prompt")
        prompt = json.dumps(request["messages"]) if chat else str(request["prompt"])
        limit = int(request.get("max_completion_tokens") or request.get("max_tokens") or 16)
        with self.server.stats.request(self._ask_engine):
            if request.get("stream"):
                self._stream(request, prompt, limit, chat=chat)
            else:
                text = "".join(self._tokens(prompt, limit))
                usage = self._usage(prompt, limit)
                self._json({**self._chunk(request, text, "length", chat=chat), "usage": usage})
            self.server.stats.succeeded("length")

    def _pool(self, answer: Callable[..., pooling.Answer], *fields: str) -> None:
        request = self._request(*fields)
        with self.server.stats.request(self._ask_engine):
            time.sleep(PREFILL_SECONDS)
            try:
                document, texts = answer(request, self.server.wrong)
            except (LookupError, TypeError, ValueError, StopIteration) as error:
                raise BadRequestError("The texts are not as this endpoint wants them.") from error
            usage = self._usage(" ".join(texts), 0)
            self.server.stats.step(prompt=usage["prompt_tokens"])
            described = {"id": f"pool-{uuid.uuid4().hex}", "created": int(time.time())}
            self._json({**described, "model": request["model"], **document, "usage": usage})
            self.server.stats.succeeded("stop")

    def _request(self, *fields: str) -> dict[str, Any]:
        try:
            request = json.loads(self.body)
            model = request.get("model") or self.server.model.names[0]
        except (ValueError, AttributeError) as error:
            raise BadRequestError("The body is not a JSON object.") from error
        if model not in self.server.model.names:
            raise RequestRefusedError(
                HTTPStatus.NOT_FOUND, f"The model `{model}` does not exist.", "NotFoundError"
            )
        if missing := [field for field in fields if field not in request]:
            raise BadRequestError(f"Field required: {', '.join(missing)}.")
        return {**request, "model": model}

    def _ask_engine(self) -> None:
        """Go through the engine, so that a dead one fails and a hung one hangs the request."""
        try:
            if self.server.wrong == "dead":
                raise EngineDeadError("EngineCore encountered an issue.")
            self.server.engine.order("generate")
        except EngineDeadError as error:
            raise RequestRefusedError(
                HTTPStatus.INTERNAL_SERVER_ERROR, str(error), "InternalServerError"
            ) from error

    def _tokens(self, prompt: str, limit: int) -> Iterator[str]:
        """Yield the answer's tokens, one step of the engine each."""
        time.sleep(PREFILL_SECONDS)
        for place in range(limit):
            if place:
                time.sleep(TOKEN_SECONDS)
            self.server.stats.step(prompt=0 if place else len(prompt.split()), generated=1)
            yield answers.token(prompt, place, self.server.wrong)

    def _usage(self, prompt: str, generated: int) -> dict[str, int]:
        read = len(prompt.split())
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
