"""What the kernel said of a service while its journal was written: killed, crashed, a GPU lost.

Of processes only what is about the service's own is told: that somebody else was killed for memory
is not why this one died. GPUs and disks are everybody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Callable, Optional

from blocks.supervisor import commands, processes

MOST = 100
"""How many lines are told, the newest ones."""
_MOST_READ = 5000
_BEFORE_SECONDS, _AFTER_SECONDS = 5.0, 60.0
_READ_SECONDS = 20
_OF_HARDWARE = re.compile(r"\bNVRM\b|\bS?Xid\b|I/O error, dev|-fs error|Hardware Error")
_OF_A_PROCESS = re.compile(
    r"(?i)out of memory|\boom-kill|invoked oom-killer|segfault at|^traps: |general protection"
)
_NUMBERED = re.compile(r"(?:process |pid[= ]|\[)(\d+)")
_TITLED = re.compile(r"\bVLLM::|\bvllm\b")
Entry = dict[str, Any]
Parse = Callable[[bytes], Optional[Entry]]


def lines(entries: list[Entry], since: float | None, unit: str, parse: Parse) -> list[Entry]:
    """Return the kernel's lines about a unit at the time of its own lines.

    Args:
        entries: The unit's own lines.
        since: From when on they were read; None: since the first of them.
        unit: The unit.
        parse: Reads one line of `journalctl -o json`.
    """
    times = [entry["time"] for entry in entries]
    if not times and since is None:
        return []
    first = since if since is not None else min(times)
    window = [f"--since=@{first - _BEFORE_SECONDS:.6f}", f"--lines={_MOST_READ}"]
    if times:
        window.append(f"--until=@{max(times) + _AFTER_SECONDS:.6f}")
    asked = commands.journal(("_TRANSPORT=kernel",), *window)
    ended = processes.run(asked, timeout=_READ_SECONDS)
    if ended.exit != 0:
        return []
    known = _pids(entries)
    found = (parse(line.encode()) for line in ended.output.splitlines())
    return [one for one in found if one and is_about(one["message"], unit, known)][-MOST:]


def is_about(message: str, unit: str, pids: set[int]) -> bool:
    """Tell whether a line of the kernel is about a unit's processes, or the hardware they use."""
    if _OF_HARDWARE.search(message):
        return True
    if not _OF_A_PROCESS.search(message):
        return False
    named = {int(number) for number in _NUMBERED.findall(message)}
    return bool(named & pids) or f"/{unit}" in message or _TITLED.search(message) is not None


def _pids(entries: Iterable[Entry]) -> set[int]:
    found: set[int] = set()
    for entry in entries:
        found.update(int(number) for number in re.findall(r"\bpid=(\d{1,9})\b", entry["message"]))
        if entry["pid"] not in (None, 1):
            found.add(entry["pid"])
    return found
