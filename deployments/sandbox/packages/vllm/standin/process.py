"""Stand-in for tests; not the real vLLM: names processes and ties them to their parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
from pathlib import Path

PID = "\0pid\0"
TIME = "\0time\0"
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def say(text: str, end: str = "\n") -> None:
    """Write one recorded line with this process's number and the present time."""
    now = time.strftime("%m-%d %H:%M:%S")
    line = text.replace(PID, str(os.getpid())).replace(TIME, now)
    os.write(1, (line + end).encode())


def become(title: str) -> None:
    """Take a title, as setproctitle does, and end when the parent ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:
        os._exit(1)  # it ended before it could be tied to
    libc.prctl(PR_SET_NAME, title.encode()[:15], 0, 0, 0)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # where the kernel reads the command line
    if 0 < begin < end:
        ctypes.memmove(
            begin, title.encode()[: end - begin - 1].ljust(end - begin, b"\0"), end - begin
        )
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
