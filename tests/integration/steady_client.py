"""A client that asks a service 20 times a second, and remembers when it got no good answer."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

PERIOD_SECONDS = 0.05
_PATIENCE_SECONDS = 2.0


@dataclass
class Asked:
    """How often it was asked, and what went wrong."""

    answers: int = 0
    wrong: list[str] = field(default_factory=list)


@contextmanager
def steadily_asked(url: str) -> Iterator[Asked]:
    """Ask for the health of a service while the block runs.

    Args:
        url: where the service is reached.
    """
    asked, over = Asked(), threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=_PATIENCE_SECONDS, trust_env=False) as client:
            while not over.wait(PERIOD_SECONDS):
                try:
                    status = client.get("/health").status_code
                except httpx.HTTPError as error:
                    asked.wrong.append(f"{time.time():.2f} {type(error).__name__}")
                    continue
                asked.answers += 1
                if status != httpx.codes.OK:
                    asked.wrong.append(f"{time.time():.2f} {status}")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()
