"""What the processes of a unit have used so far: CPU, disk, network, and the GPU memory they hold.

Traffic is the host's: Linux does not count it by process.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable
from pathlib import Path

from blocks.supervisor import cgroups, proc
from blocks.supervisor.gpu_memory import GpuMemory
from tasks.startup.stall import Sample

_USAGE = re.compile(r"^usage_usec (\d+)$", re.MULTILINE)
_V1_ROOTS = ("/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct")
_V2_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_DISK = ("read_bytes", "write_bytes")


class Sampler:
    """Takes samples of one unit."""

    def __init__(self) -> None:
        self._gpus = GpuMemory()

    def sample(self, control_group: str | None, lines: int) -> Sample:
        """Measure the processes of a control group.

        GPU memory is what the driver last told: it is asked beside us, and may hang.

        Args:
            control_group: The unit's.
            lines: How many lines have told something new so far.
        """
        pids = cgroups.members(control_group) if control_group else set()
        return Sample(
            time=time.monotonic(),
            lines=lines,
            gpu_bytes=self._gpus.held_by(pids),
            cpu_seconds=cpu_seconds(control_group, pids),
            disk_bytes=disk_bytes(pids),
            net_bytes=net_bytes(),
        )

    def close(self) -> None:
        """Let go of the GPU driver."""
        self._gpus.close()


def cpu_seconds(control_group: str | None, pids: Iterable[int]) -> float | None:
    """Return the CPU time of a control group, dead processes included; else of its processes.

    Where the kernel does not count by control group, a child that has ended counts as soon as its
    parent has waited for it.
    """
    if control_group:
        for root in _V2_ROOTS:
            found = _USAGE.search(_text(f"{root}{control_group}/cpu.stat"))
            if found:
                return int(found[1]) / 1e6
        for root in _V1_ROOTS:
            used = _text(f"{root}{control_group}/cpuacct.usage").strip()
            if used.isdigit():
                return int(used) / 1e9
    stats = [one for one in map(proc.stat, pids) if one is not None]
    return sum(one.cpu_seconds + one.dead_children_seconds for one in stats) if stats else None


def disk_bytes(pids: Iterable[int]) -> int | None:
    """Return how much some processes have had read and written by storage."""
    known = [one for one in (_io(pid) for pid in pids) if one is not None]
    return sum(known) if known else None


def net_bytes() -> int | None:
    """Return the traffic of all interfaces of this host but the loopback."""
    return parse_traffic(_text("/proc/net/dev"))


def parse_traffic(table: str) -> int | None:
    """Read a `/proc/net/dev`: bytes received are its first column, bytes sent its ninth."""
    total, seen = 0, False
    for line in table.splitlines()[2:]:
        name, _, rest = line.partition(":")
        columns = rest.split()
        if name.strip() != "lo" and len(columns) > 8:
            total += int(columns[0]) + int(columns[8])
            seen = True
    return total if seen else None


def parse_io(text: str) -> int | None:
    """Read a `/proc/<pid>/io`."""
    counts = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if not all(counts.get(name, "").isdigit() for name in _DISK):
        return None
    return sum(int(counts[name]) for name in _DISK)


def _io(pid: int) -> int | None:
    return parse_io(_text(f"/proc/{pid}/io"))


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text("utf-8", "replace")
    return ""
