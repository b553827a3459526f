"""Where the sandbox keeps its state, and the lock that makes it one at a time."""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deployments.sandbox.errors import WrongWish

Say = Callable[[str], None]
"""Tells a person what is being done."""

NAME = re.compile(r"[a-z][a-z0-9]{0,9}")
DEFAULT_ROOT = "/var/lib/vllm-redeploy-sandbox"


def say_on_stderr(message: str) -> None:
    """Print one line of progress on standard error."""
    print(f"sandbox: {message}", file=sys.stderr, flush=True)


def root() -> Path:
    """Return the folder that holds everything of the sandbox."""
    return Path(os.environ.get("VLLM_REDEPLOY_SANDBOX") or DEFAULT_ROOT)


def host_folder(name: str) -> Path:
    """Return the folder of one host.

    Raises:
        WrongWish: that is no name for a host.
    """
    if not NAME.fullmatch(name):
        raise WrongWish(
            f"{name!r} is no name for a sandbox host.",
            "Use a lower-case letter and up to nine lower-case letters or digits.",
        )
    return root() / "hosts" / name


@contextmanager
def locked(what: str) -> Iterator[None]:
    """Hold the lock of that name, over processes, while the block runs."""
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / what).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
