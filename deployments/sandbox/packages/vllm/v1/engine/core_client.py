"""Stand-in for tests; not the real vLLM: the API server's side of the engine."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from ...standin.process import say
from ...standin.recording import Line
from .core import FORK, run_engine_core

NAME = "EngineCore"


class EngineDeadError(Exception):
    """The engine's process is gone."""


class EngineClient:
    """Starts the engine when its first line is due and passes orders to it."""

    def __init__(self, tensor_parallel_size: int, last_words: list[Line]) -> None:
        """Remember how many workers the engine is to have."""
        self.tensor_parallel_size = tensor_parallel_size
        self.last_words = last_words
        self.process: BaseProcess | None = None
        self.connection: Connection[Any, Any] | None = None
        self.lock = threading.Lock()

    def launch(self) -> None:
        """Start the engine's process."""
        self.connection, theirs = FORK.Pipe()
        args = (theirs, self.tensor_parallel_size, self.last_words)
        self.process = FORK.Process(name=NAME, target=run_engine_core, args=args)
        self.process.start()
        theirs.close()

    def order(self, *words: Any) -> None:
        """Have the engine do one thing and wait until it has.

        Raises:
            EngineDeadError: it is gone.
        """
        if self.connection is None:
            self.launch()
        if self.connection is None:
            raise EngineDeadError
        try:
            with self.lock:
                self.connection.send(words)
                self.connection.recv()
        except (EOFError, OSError) as error:
            raise EngineDeadError(
                "EngineCore encountered an issue. See stack trace (above) for the root cause."
            ) from error

    def hang(self) -> None:
        """Have the engine hang; from then on every order waits for ever."""
        self.lock.acquire()
        if self.connection:
            self.connection.send(("hang",))

    def replay(self, line: Line) -> None:
        """Have a recorded line said by the process that said it."""
        if line.role == "api":
            say(line.text, line.end)
        else:
            order = "say" if line.role == "engine" else "say-worker"
            self.order(order, line.text, line.end)

    def wait(self) -> None:
        """Wait until the engine's process has ended."""
        if self.process is not None:
            self.process.join()

    def finished(self) -> dict[str, int | None]:
        """Return the exit code of an engine that did not end by an exception of its own."""
        if self.process is None:
            return {}
        self.process.join(5)
        code = self.process.exitcode
        return {NAME: code} if code is not None and code < 0 else {}

    def kill(self) -> None:
        """End the engine at once; the workers go with it."""
        if self.process and self.process.pid and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.join(5)
