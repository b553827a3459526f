"""One poller for the tests: a condition, a deadline, and no sleep that hides a race."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, seconds: float, pause: float = 0.05) -> T:
    """Look again and again until there is something to return.

    Args:
        look: returns what is waited for, or None (or False) while it is not there.
        what: what is waited for, for the error.
        seconds: the deadline.
        pause: seconds between two looks.

    Raises:
        TimeoutError: it was not there in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)
