"""A service is asked with a deadline for all of it, on real sockets."""

import contextlib
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from blocks.supervisor import serving, talk

METRICS = b"""# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 2.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 40.0
vllm:generation_tokens_total{engine="0",model_name="m"} 1.2e+03
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e+09
vllm:num_requests_running{engine="0",model_name="m"} 8.0
"""


class Service(socketserver.BaseRequestHandler):
    asked = b""

    def handle(self) -> None:
        Service.asked = self.request.recv(65536)
        path = Service.asked.split(b" ")[1]
        if path == b"/drips":
            with contextlib.suppress(OSError):
                for _ in range(100):
                    self.request.sendall(b"H")
                    time.sleep(0.1)
            return
        body = METRICS if path == b"/metrics" else b""
        head = b"HTTP/1.1 401 Unauthorized" if path == b"/v1/completions" else b"HTTP/1.1 200 OK"
        self.request.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def test_an_answer_has_its_status_and_body(port: int) -> None:
    assert talk.get("127.0.0.1", port, "/metrics", 5) == (200, METRICS)
    answer = talk.completion("127.0.0.1", port, "m", "k", 5)
    assert answer is not None
    assert answer.status == 401
    assert b"\r\nAuthorization: Bearer k\r\n" in Service.asked
    assert Service.asked.endswith(
        b'{"model": "m", "prompt": "1", "max_tokens": 1, "temperature": 0}'
    )


def test_nobody_there_and_one_that_drips_are_no_answer(port: int) -> None:
    assert talk.get("127.0.0.1", 1, "/", 5) is None
    began = time.monotonic()
    assert talk.get("127.0.0.1", port, "/drips", 0.5) is None
    assert time.monotonic() - began < 2


def test_an_address_in_a_url() -> None:
    assert talk.authority("::1", 8000) == "[::1]:8000"
    assert talk.authority("127.0.0.1", 8000) == "127.0.0.1:8000"


def test_the_work_done_is_what_grows(port: int) -> None:
    served = object.__new__(serving.Served)
    served.address, served._port = "127.0.0.1", port
    assert served.work_done() == 2 + 40 + 1200
    served._port = 1
    assert served.work_done() is None
