"""Looks at what may hang (a dead NFS server, a GPU driver) without hanging with it.

The look happens in a forked child. One that the kernel does not let go of is left behind: it can
neither be killed nor waited for.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

_LARGEST = 16 << 20


class Looked(NamedTuple):
    """What was seen, or why it could not be."""

    value: Any
    problem: str | None


def within(seconds: float, what: str, look: Callable[[], Any]) -> Looked:
    """Return what `look` returns (anything JSON can hold), or the problem it had."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(writing, look)
    os.close(writing)
    try:
        raw = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
    if raw is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG)
        return Looked(None, f"{what} did not answer within {seconds:g} s")
    os.waitpid(child, 0)
    try:
        value, problem = json.loads(raw)
    except ValueError:
        return Looked(None, f"looking at {what} ended without an answer")
    return Looked(value, problem)


def read_json(path: str, seconds: float) -> Looked:
    """Return the JSON object in a file."""
    return within(seconds, path, lambda: _json_object(path))


def _json_object(path: str) -> dict[str, Any]:
    with Path(path).open("rb") as file:
        value = json.loads(file.read(_LARGEST))
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not a JSON object")
    return value


def _answer(writing: int, look: Callable[[], Any]) -> None:
    """Be the child: hold nothing of our parent's open, look, answer, end."""
    status = 1
    try:
        _hold_only(writing)
        try:
            answer = [look(), None]
        except Exception as error:
            answer = [None, f"{type(error).__name__}: {error}"[:1000]]
        with os.fdopen(writing, "wb") as file:
            file.write(json.dumps(answer).encode())
        status = 0
    finally:
        os._exit(status)


def _read(reading: int, deadline: float) -> bytes | None:
    raw = b""
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        chunk = os.read(reading, 65536)
        if not chunk:
            return raw
        raw += chunk


class Beside:
    """A forked child that looks at something each time it is asked, while we go on.

    Args:
        look: Given a value that JSON can hold, returns another one. Only the child calls it.
    """

    def __init__(self, look: Callable[[Any], Any]) -> None:
        self.asked = False
        asking, self._ask = os.pipe()
        self._answer, answering = os.pipe()
        self._rest = b""
        self._pid = os.fork()
        if self._pid == 0:
            _attend(asking, answering, look)
        os.close(asking)
        os.close(answering)

    def ask(self, value: Any) -> None:
        """Have it look; one question at a time."""
        self.asked = True
        with contextlib.suppress(BrokenPipeError):
            os.write(self._ask, json.dumps(value).encode() + b"\n")

    def answer(self) -> Looked | None:
        """Return what it has seen since it was asked, or None if it has not answered yet."""
        if not self.asked or not select.select([self._answer], [], [], 0)[0]:
            return None
        chunk = os.read(self._answer, 65536)
        self._rest += chunk
        if chunk and not self._rest.endswith(b"\n"):
            return None
        raw, self._rest, self.asked = self._rest, b"", False
        try:
            value, problem = json.loads(raw)
        except ValueError:
            return Looked(None, "looking ended without an answer")
        return Looked(value, problem)

    def close(self) -> None:
        """End it; one that the kernel does not let go of is left behind."""
        os.close(self._ask)
        os.close(self._answer)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, os.WNOHANG)


def _attend(asking: int, answering: int, look: Callable[[Any], Any]) -> None:
    """Be the child that is asked: answer line by line until nobody asks any more."""
    try:
        _hold_only(asking, answering)
        with os.fdopen(asking, "rb") as questions, os.fdopen(answering, "wb") as answers:
            for question in questions:
                try:
                    answer = [look(json.loads(question)), None]
                except Exception as error:
                    answer = [None, f"{type(error).__name__}: {error}"[:1000]]
                answers.write(json.dumps(answer).encode() + b"\n")
                answers.flush()
    finally:
        os._exit(0)


def _hold_only(*kept: int) -> None:
    """Let go of what our parent holds: a child that hangs must not hold its locks for it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for open_one in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(open_one.name)
        if descriptor not in (0, 1, 2, *kept):
            with contextlib.suppress(OSError):
                os.close(descriptor)
