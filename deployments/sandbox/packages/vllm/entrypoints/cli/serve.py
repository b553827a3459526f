"""Stand-in for tests; not the real vLLM: `vllm serve`, a recorded start around a real server."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
from typing import NoReturn

from ... import __version__
from ...standin import needs, recording
from ...standin.failures import Failure, planned
from ...standin.model import CONVERTS, RUNNERS, TASKS, Model, task_of
from ...standin.process import PID, TIME, say
from ...v1.engine.core_client import NAME, EngineClient, EngineDeadError
from ..openai.api_server import Server

MARKS = {
    "bind": "non-default args",
    "engine": "Initializing a V1 LLM engine",
    "loading": "0% Completed",
    "profile": "KV cache size",
    "listening": recording.LAST_OF_START,
}
"""The recorded line after which each stage is reached."""

LEAVE_SECONDS = float(os.environ.get("VLLM_STANDIN_LEAVE_SECONDS", "3"))
DIED = f"(APIServer pid={PID}) ERROR {TIME} [core_client.py:617]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the real command that units use."""
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--api-key", default=os.environ.get("VLLM_API_KEY"))
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--max-model-len", type=int, default=262144)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.92)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--runner", choices=RUNNERS, default="auto")
    parser.add_argument("--convert", choices=CONVERTS, default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--enable-auto-tool-choice", action="store_true")
    parser.add_argument("--tool-call-parser")
    parser.add_argument("--reasoning-parser")


def cmd(args: argparse.Namespace) -> None:
    """Serve a model until told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    model = args.model_tag or args.model or "Qwen/Qwen3-0.6B"
    tasks = TASKS[task_of(args.runner, args.convert)]
    new = recording.Substitution(__version__, model, args.host, args.port, tasks)
    last_words = recording.load("sigkill-worker-tail.log", new)
    before_raise = [line for line in last_words if line.text.startswith("(EngineCore")]
    engine = EngineClient(args.tensor_parallel_size, before_raise)
    try:
        run_server(args, model, engine, new, planned(__version__))
    finally:
        engine.kill()


def run_server(
    args: argparse.Namespace,
    model: str,
    engine: EngineClient,
    new: recording.Substitution,
    failure: Failure | None,
) -> None:
    """Go through the recorded start, then serve."""
    fail_at("import", failure, engine, new)
    needs.check(__version__)
    sock = launch(args, engine, new, failure)
    served = tuple(args.served_model_name or (model,))
    task = task_of(args.runner, args.convert)
    described = Model(served, model, args.max_model_len, task, args.max_num_seqs)
    server = Server(sock, engine, described, args.api_key)
    if failure and failure.stage == "serving":
        break_later(failure, engine, server)
    server.serve()
    try:
        engine.wait()
    except SystemExit:
        for line in shutdown_lines(new):
            say(line.text)
        raise
    server.engine_is_dead = True
    leave(engine, new)
    os._exit(0)  # requests that hang are not waited for


def launch(
    args: argparse.Namespace,
    engine: EngineClient,
    new: recording.Substitution,
    failure: Failure | None,
) -> socket.socket:
    """Replay the start and return the bound socket that nobody listens on yet.

    Raises:
        RuntimeError: the engine's process ended.
    """
    sock: socket.socket | None = None
    lines = recording.start(new, float(os.environ.get("VLLM_STANDIN_LOAD_SECONDS", "3")))
    began = time.monotonic()
    try:
        for line in lines:
            time.sleep(max(0.0, began + line.at - time.monotonic()))
            engine.replay(line)
            reached = next((stage for stage, mark in MARKS.items() if mark in line.text), None)
            if reached == "bind":
                sock = create_server_socket((args.host, args.port), failure)
            elif reached == "engine":
                engine.order("make")
            if reached:
                fail_at(reached, failure, engine, new)
    except EngineDeadError:
        raise_engine_failure(engine)
    if sock is None:
        raise RuntimeError("the recording has no line that a port is bound after")
    return sock


def create_server_socket(addr: tuple[str, int], failure: Failure | None) -> socket.socket:
    """Bind the port long before anything listens on it, and beside others, as the real one does.

    Another process of the same user that did so too keeps the port; answers come from either.
    """
    family = socket.AF_INET6 if ":" in addr[0] else socket.AF_INET
    if failure and failure.kind == "port-in-use":
        holder = socket.create_server(addr, family=family)
        sys.modules[__name__].__dict__["holder"] = holder  # keeps it open to the end
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(addr)
    return sock


def raise_engine_failure(engine: EngineClient) -> NoReturn:
    """Say what the real API server says when its engine did not come up.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "Engine core initialization failed. See root cause above."
        f" Failed core proc(s): {engine.finished()}"
    ) from None


def fail_at(
    stage: str, failure: Failure | None, engine: EngineClient, new: recording.Substitution
) -> None:
    """Fail, if it is this stage that is to fail.

    Raises:
        ValueError: the failure is a crash right before listening.
    """
    if failure is None or failure.stage != stage or failure.kind == "port-in-use":
        return
    if failure.recording:
        for line in recording.failure(failure.recording, new):
            engine.replay(line) if stage != "import" else say(line.text, line.end)
        sys.exit(1)
    if failure.kind == "hang":
        time.sleep(1e9)
    if failure.kind == "exit0":
        sys.exit(0)
    if failure.kind == "sigkill":
        engine.kill()
        raise EngineDeadError
    raise ValueError(
        "The supplied chat template (/etc/vllm/chat.jinja) looks like a file path,"
        " but it doesn't exist!"
    )


def break_later(failure: Failure, engine: EngineClient, server: Server) -> None:
    """Fail when it is time; where that is at once, nobody gets an answer before."""
    if failure.after_seconds > 0:
        threading.Timer(failure.after_seconds, break_serving, (failure, engine, server)).start()
    else:
        break_serving(failure, engine, server)


def break_serving(failure: Failure, engine: EngineClient, server: Server) -> None:
    """Fail while serving."""
    if failure.kind == "exit0":
        os._exit(0)  # the engine and its workers go with their parent
    elif failure.kind == "sigkill":
        engine.kill()
    elif failure.kind in ("hang", "lies"):
        server.stats.freeze()
        engine.hang()
    elif failure.kind == "crash":
        engine.order("kill-worker")
    else:
        server.wrong = failure.kind


def leave(engine: EngineClient, new: recording.Substitution) -> None:
    """Say that the engine is dead, answer 503 for a while, then go, with status 0."""
    if engine.process and (engine.process.exitcode or 0) < 0:
        say(f"{DIED} Engine core proc {NAME} died unexpectedly, shutting down client.")
    lines = recorded_death(new)
    for line in lines[: next(i for i, line in enumerate(lines) if "[shutdown]" in line.text)]:
        say(line.text)
    time.sleep(LEAVE_SECONDS)
    for line in shutdown_lines(new):
        say(line.text)


def recorded_death(new: recording.Substitution) -> list[recording.Line]:
    """Return what a real API server said when its engine had died, up to its own end."""
    lines = recording.load("sigkill-worker-tail.log", new)
    api = [line for line in lines if line.role == "api" and '"GET /health' not in line.text]
    return api[: next(i for i, line in enumerate(api) if "nanobind" in line.text)]


def shutdown_lines(new: recording.Substitution) -> list[recording.Line]:
    """Return what a real API server says last."""
    lines = recorded_death(new)
    return lines[next(i for i, line in enumerate(lines) if "[shutdown]" in line.text) :]
