"""Runs programs: argument vectors only, output kept or passed on, nobody waits for ever."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Callable, NamedTuple, cast

from blocks.supervisor import foreign
from blocks.supervisor.secrets import redacted_argv

UMASK = 0o022
"""Of programs we run; what we write ourselves is for root only."""

NOT_FOUND_EXIT = 127
TIMED_OUT_EXIT = 124
RAN: collections.deque[tuple[float, tuple[str, ...]]] = collections.deque(maxlen=100)
"""The last programs that this process has run: when, in seconds since 1970, and which."""
_TICK_SECONDS = 0.5
_DRAIN_SECONDS = 2.0
_LONGEST_LINE = 65536


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
    RAN.append((time.time(), tuple(argv)))
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
    meanwhile: Callable[[], None] | None = None,
    keep_lines: int = 200,
) -> Ended:
    """Run a program, pass on to our own output what it prints, and keep its last lines.

    What it prints is made fit to be told before it goes anywhere.

    Args:
        argv: The program and its arguments.
        data: What it reads.
        environment: Its variables; ours if not given.
        timeout: Seconds after which it is ended.
        on_line: Told each line, in another thread, also those of a bar that is drawn over.
        meanwhile: Called about twice a second; what it raises ends the program at once.
        keep_lines: How many lines are kept.
    """
    RAN.append((time.time(), tuple(argv)))
    say("+", *redacted_argv(argv))
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
    reader = threading.Thread(target=_pass_on, args=(stdout, tail, on_line), daemon=True)
    reader.start()
    threading.Thread(target=_feed, args=(stdin, data.encode()), daemon=True).start()
    try:
        in_time = _wait(process, timeout, meanwhile)
    finally:
        if process.poll() is None:
            _kill(process)
            process.wait()
        reader.join(_DRAIN_SECONDS)
    if in_time:
        return Ended(process.returncode, "\n".join(tail), "")
    tail.append(f"{argv[0]} was ended: it had not finished within {timeout:g} s")
    return Ended(TIMED_OUT_EXIT, "\n".join(tail), "")


def _wait(
    process: subprocess.Popen[bytes], timeout: float, meanwhile: Callable[[], None] | None
) -> bool:
    """Wait for a program's end and tell whether it came in time."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(left, _TICK_SECONDS if meanwhile else left))
            return True
        if meanwhile is not None:
            meanwhile()
    return False


def _pass_on(
    pipe: IO[bytes], tail: collections.deque[str], on_line: Callable[[str], None] | None
) -> None:
    text = io.TextIOWrapper(pipe, "utf-8", "replace", newline="")
    for raw in iter(lambda: text.readline(_LONGEST_LINE), ""):
        line = foreign.safe(raw.rstrip("\r\n"))
        if on_line is not None:
            on_line(line)
        if not raw.endswith("\r"):  # else it is drawn over by the next one
            say(line)
            tail.append(line[:2000])


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(data)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def say(*words: str) -> None:
    """Print into our own output; what a full disk does not take is lost and hinders no work."""
    with contextlib.suppress(OSError):
        print(*words, flush=True)


def own_output_to(path: str) -> None:
    """Send what this process and its children print to a file, from here on."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
