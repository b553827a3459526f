"""The file system that a host's environment lies on, and what a crash takes from it."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHUT_DOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NOTHING_WRITTEN_OUT = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH


@contextmanager
def losing_what_is_not_synced(keeper: int, folder: Path) -> Iterator[None]:
    """Let a host be ended in the block; then its file system forgets what it had only in memory.

    Held open, it is still mounted when the host and its mounts have ended, and is not written out
    by that. The next mount finds the journal as a machine does that had lost its power.

    Args:
        keeper: a process that sees the file system.
        folder: where that process sees it.
    """
    disk = os.open(f"/proc/{keeper}/root{folder}", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield
        fcntl.ioctl(disk, _SHUT_DOWN, _NOTHING_WRITTEN_OUT)
    finally:
        os.close(disk)
