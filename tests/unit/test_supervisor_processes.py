"""Programs that print, draw, take too long or have to be ended."""

import sys
import time
from collections.abc import Callable

import pytest

from blocks.supervisor.processes import TIMED_OUT_EXIT, Ended, stream

BARS = "import sys; [sys.stderr.write(f'\\r {n}/3 [') for n in range(4)]; print('\\nend')"
FOREVER = "import time; print('begun', flush=True); time.sleep(60)"
WITH_A_CHILD = "import subprocess; subprocess.Popen(['sleep', '20'])"


def python(code: str, timeout: float = 20, **options: Callable[..., None]) -> Ended:
    return stream([sys.executable, "-c", code], timeout=timeout, **options)  # type: ignore[arg-type]


def test_each_state_of_a_bar_is_heard_and_the_last_one_kept() -> None:
    heard: list[str] = []
    ended = python(BARS, on_line=heard.append)
    assert [line.strip() for line in heard if "[" in line] == [f"{n}/3 [" for n in range(4)]
    assert [line.strip() for line in ended.output.splitlines()] == ["3/3 [", "end"]


def test_one_that_takes_too_long_is_ended() -> None:
    began = time.monotonic()
    ended = python(FOREVER, timeout=1)
    assert time.monotonic() - began < 5
    assert ended.exit == TIMED_OUT_EXIT
    assert ended.output.splitlines()[0] == "begun"
    assert "had not finished within 1 s" in ended.output


def test_what_is_raised_meanwhile_ends_it_at_once() -> None:
    began = time.monotonic()

    def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        python(FOREVER, meanwhile=fail)
    assert time.monotonic() - began < 5


def test_a_child_that_keeps_the_output_open_is_not_waited_for() -> None:
    began = time.monotonic()
    assert python(WITH_A_CHILD).exit == 0
    assert time.monotonic() - began < 10


def test_a_line_without_end_is_cut() -> None:
    ended = python("print('x' * 200_000, end=''); print(); print('next')")
    assert ended.output.splitlines()[-1] == "next"
    assert max(map(len, ended.output.splitlines())) == 2000
