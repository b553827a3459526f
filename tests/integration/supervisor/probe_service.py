"""A small service for the supervisor's tests: it starts in stages, then does as its mode says.

Run on the host by its own Python; it is no vLLM and does not pretend to be more than its lines.
"""

import os
import signal
import socket
import socketserver
import sys
import time
from pathlib import Path

MODE = sys.argv[1]
PORT = 8123


class Healthy(socketserver.BaseRequestHandler):
    """Answers every request with 200, and completions as the mode says."""

    completions = 0

    def handle(self) -> None:
        asked = self.request.recv(65536)
        status = complete(asked) if asked.startswith(b"POST /v1/completions ") else b"200 OK"
        self.request.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")


def complete(asked: bytes) -> bytes:
    """Answer, refuse, take long, hang or die."""
    Healthy.completions += 1
    if MODE == "serve-key":
        time.sleep(0.3)
        bearer = f"Authorization: Bearer {Path('/opt/key').read_text()}\r\n".encode()
        return b"200 OK" if bearer in asked else b"401 Unauthorized"
    if MODE == "serve-slowly":
        time.sleep(2)
    if MODE == "serve-and-hang" and Healthy.completions > 3:
        time.sleep(10_000)
    if MODE == "serve-and-die" and Healthy.completions > 3:
        say("going down")
        os._exit(1)
    return b"200 OK"


class Server(socketserver.ThreadingTCPServer):
    """Listens on one address."""

    allow_reuse_address = True
    allow_reuse_port = True
    address_family = socket.AF_INET6 if MODE == "serve-v6" else socket.AF_INET


def say(line: str) -> None:
    """Print a line, at once."""
    print(line, flush=True)


say("INFO 12-01 14:00:00 [api_server.py:1272] vLLM API server version 0.16.0")
ENGINE = "INFO 12-01 14:00:01 [core.py:96] Initializing a V1 LLM engine (v0.16.0)"
say(f"\x1b[36m(EngineCore_DP0 pid=9)\x1b[0m {ENGINE}")
say("non-default args: {'port': 8123, 'api_key': ['k e y', 'sk-proj-123456'], 'hf_token': 'hid'}")
say("\x1b]0;owned\x07\x9b2Jfetched https://me:hid@x.example/m \u202eby Bearer hid")
for shard in range(1, 5):
    bar = f"{shard * 25}% Completed | {shard}/4 [00:0{shard}<00:0{4 - shard},  1.00s/it]"
    say(f"\rLoading safetensors checkpoint shards:  {bar}")
    time.sleep(0.15)
if MODE == "crash-once" and not Path("/run/crashed-once").exists():
    Path("/run/crashed-once").touch()
    say("going down")
    sys.exit(1)
say("going down" if MODE in ("crash", "kill", "exit-0") else "going on")
if MODE == "crash":
    sys.exit(1)
if MODE == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if MODE == "exit-0":
    sys.exit(0)
number = 0
while MODE == "chatter":
    say(f"line {(number := number + 1)}")
    time.sleep(0.2)
if MODE == "hang":
    time.sleep(10_000)
if MODE == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
own = "::1" if MODE == "serve-v6" else "127.0.0.1"
Server((sys.argv[2] if len(sys.argv) > 2 else own, PORT), Healthy).serve_forever()
