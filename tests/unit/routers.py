"""A router as hooks see it, over real HTTP on loopback, and a host that is this machine."""

import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from blocks.errors import CommandFailed, HostUnreachable
from blocks.hooks import HttpHook
from blocks.host import Ran

SECRET = "sk-very-secret-4711"  # noqa: S105
IDLE = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"


@dataclass
class Router:
    """A router's API: answers with the next status of a list, 200 when it is empty."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    calls: list[tuple[str, str, dict[str, str], str]] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    answer: str = "ok"
    pause: float = 0

    def hook(self, **more: Any) -> HttpHook:
        """Return a hook that calls it."""
        return HttpHook(url=f"{self.url}/hook", **more)

    @property
    def port(self) -> int:
        """Where it listens, as a service's port."""
        return int(self.url.rpartition(":")[2])


def _handler(router: Router) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            router.calls.append((self.command, self.path, dict(self.headers), body))
            time.sleep(router.pause)
            status = router.statuses.pop(0) if router.statuses else 200
            self._say(status, router.answer)

        do_PATCH = do_POST

        def do_GET(self) -> None:
            found = router.metrics.pop(0) if len(router.metrics) > 1 else router.metrics[0]
            router.calls.append(("GET", self.path, {}, found))
            self._say(200 if found else 500, found)

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


@contextmanager
def routing() -> Iterator[Router]:
    """Run a router while the block runs."""
    router = Router(metrics=[IDLE])
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(router)) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        router.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield router
        server.shutdown()


class NearHost:
    """Runs what is meant for the host here, as a host would; lost when a test says so.

    Of a signal that ended it only -1 is told.
    """

    def __init__(self) -> None:
        self.lost = False
        self.ran: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *, timeout: float, repeatable: bool) -> Ran:
        assert repeatable
        self.ran.append(tuple(argv))
        if self.lost:
            raise HostUnreachable("The link is gone.")
        began = time.monotonic()
        running = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, errors = running.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:  # it goes on there, as on a host
            raise CommandFailed("It had not ended.") from None
        return Ran(tuple(argv), max(-1, running.returncode), out, errors, time.monotonic() - began)

    @contextmanager
    def tunnel(self, port: int, address: str) -> Iterator[int]:
        assert address == "127.0.0.1"
        yield port
