"""Runs programs: argument vectors only, output kept or passed on, nobody waits for ever."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Callable, NamedTuple, cast

from blocks.supervisor import foreign
from blocks.supervisor.secrets import redacted_argv

UMASK = 0o022
"""Of programs we run; what we write ourselves is for root only."""

NOT_FOUND_EXIT = 127
TIMED_OUT_EXIT = 124


class Ended(NamedTuple):
    """How a program ended."""

    exit: int
    output: str
    errors: str


def run(
    argv: Sequence[str],
    *,
    timeout: float = 30,
    data: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program and keep what it prints; 124 if it was too slow, 127 if it is not there."""
    try:
        done = subprocess.run(
            argv,
            input=None if data is None else data.encode(),
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            timeout=timeout,
            env=None if environment is None else dict(environment),
            cwd="/",
            umask=UMASK,
            check=False,
        )
    except FileNotFoundError:
        return Ended(NOT_FOUND_EXIT, "", f"{argv[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Ended(TIMED_OUT_EXIT, "", f"{argv[0]} did not end within {timeout:g} s")
    return Ended(done.returncode, _text(done.stdout), _text(done.stderr))


def stream(
    argv: Sequence[str],
    *,
    data: str = "",
    environment: Mapping[str, str] | None = None,
    timeout: float,
    on_line: Callable[[str], None] | None = None,
    keep_lines: int = 200,
) -> Ended:
    """Run a program, pass on to our own output what it prints, and keep its last lines.

    What it prints is made fit to be told before it goes anywhere.
    """
    print("+", *redacted_argv(argv), flush=True)
    tail: collections.deque[str] = collections.deque(maxlen=keep_lines)
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=None if environment is None else dict(environment),
        cwd="/",
        umask=UMASK,
        start_new_session=True,
    )
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    timer = threading.Timer(timeout, _kill, (process,))
    timer.start()
    threading.Thread(target=_feed, args=(stdin, data.encode()), daemon=True).start()
    try:
        for raw in stdout:
            line = foreign.safe(_text(raw).rstrip("\n"))
            print(line, flush=True)
            tail.append(line[:2000])
            if on_line is not None:
                on_line(line)
        code = process.wait()
    finally:
        timer.cancel()
    if timer.finished.is_set() and code == -signal.SIGKILL:
        tail.append(f"{argv[0]} was ended: it had not finished within {timeout:g} s")
        code = TIMED_OUT_EXIT
    return Ended(code, "\n".join(tail), "")


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(data)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def own_output_to(path: str) -> None:
    """Send what this process and its children print to a file, from here on."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
