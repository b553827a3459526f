"""Stand-in for tests; not the real vLLM: the engine's process and its workers."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any

from ...standin.process import PID, TIME, become, say
from ...standin.recording import Line

ERROR = f"(EngineCore pid={PID}) ERROR {TIME} [core.py:1510] "
FORK = multiprocessing.get_context("fork")


class EngineCoreProc:
    """Holds the workers and does what the API server says, one message at a time."""

    def __init__(self, tensor_parallel_size: int) -> None:
        """Start the workers, then load the attention backend."""
        self.connections: list[Connection[Any, Any]] = []
        self.workers = [self._launch_worker(rank) for rank in range(tensor_parallel_size)]
        self._init_executor()

    def _launch_worker(self, rank: int) -> multiprocessing.process.BaseProcess:
        ours, theirs = FORK.Pipe()
        worker = FORK.Process(target=run_worker, args=(theirs, rank), daemon=True)
        worker.start()
        self.connections.append(ours)
        return worker

    def _init_executor(self) -> None:
        importlib.import_module("vllm.v1.attention.backends.flashinfer")

    def run_busy_loop(self, connection: Connection[Any, Any], last_words: list[Line]) -> None:
        """Answer the API server until it or a worker is gone.

        Raises:
            RuntimeError: a worker died.
        """
        sentinels = [worker.sentinel for worker in self.workers]
        while True:
            ready = wait([connection, *sentinels])
            if connection not in ready:
                for line in last_words:
                    say(line.text, line.end)
                raise RuntimeError("Executor failed.")
            self._obey(connection, *connection.recv())

    def _obey(self, connection: Connection[Any, Any], order: str, *words: Any) -> None:
        if order == "say":
            say(*words)
        elif order == "say-worker":
            self.connections[0].send(words)
            self.connections[0].recv()
        elif order == "kill-worker":
            self.workers[0].kill()
            return
        elif order == "hang":
            time.sleep(1e9)
        elif order == "exit":
            os._exit(1)
        connection.send("done")


def run_engine_core(
    connection: Connection[Any, Any], tensor_parallel_size: int, last_words: list[Line]
) -> None:
    """Be the engine: say what comes before it exists, then make it and serve."""
    become("VLLM::EngineCore")
    try:
        while (message := connection.recv())[0] != "make":
            say(*message[1:])
            connection.send("done")
        engine_core = EngineCoreProc(tensor_parallel_size)
    except Exception:
        say(f"{ERROR}EngineCore failed to start.")
        for line in traceback.format_exc().splitlines():
            say(ERROR + line)
        raise
    connection.send("done")
    engine_core.run_busy_loop(connection, last_words)


def run_worker(connection: Connection[Any, Any], rank: int) -> None:
    """Be a worker: say what the engine wants said."""
    become(f"VLLM::Worker_TP{rank}")
    while True:
        say(*connection.recv())
        connection.send("done")
