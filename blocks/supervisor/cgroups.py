"""Which processes belong to a unit: those in its control group."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")


def holds(control_group: str, pid: int) -> bool:
    """Tell whether a process is in a control group or below it."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace").splitlines()
        paths = [line.split(":", 2)[-1] for line in lines]
        return any(f"{path}/".startswith(f"{control_group}/") for path in paths)
    return False


def members(control_group: str) -> set[int]:
    """Return the processes in a control group and below it."""
    found: set[int] = set()
    for root in _ROOTS:
        for folder, _, files in os.walk(f"{root}{control_group}"):
            if "cgroup.procs" in files:
                with contextlib.suppress(OSError):
                    found.update(map(int, Path(folder, "cgroup.procs").read_text().split()))
    return found
