"""What `/proc` tells of a process. A process that ends meanwhile is simply not there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from blocks.supervisor.secrets import redacted_argv

_LARGEST_COMMAND = 16384
_LONGEST_SHOWN = 500
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    """A process: its name, the letter of its state, and the CPU time used.

    `dead_children_seconds` is what its children used that it has waited for.
    """

    name: str
    state: str
    cpu_seconds: float
    dead_children_seconds: float


def parse_stat(text: str) -> Stat:
    """Read a `/proc/<pid>/stat`; the name in it may hold anything, brackets as well."""
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    own, children = fields[11:13], fields[13:15]
    return Stat(name, fields[0], _seconds(own), _seconds(children))


def stat(pid: int) -> Stat | None:
    """Return how a process is."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return parse_stat(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace"))
    return None


def argv(pid: int) -> list[str]:
    """Return a command line as it is: it may hold secrets."""
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/cmdline").open("rb") as file:
        raw = file.read(_LARGEST_COMMAND).decode("utf-8", "replace")
        return raw.rstrip("\x00").split("\x00") if raw else []
    return []


def command(pid: int) -> str | None:
    """Return a command line for a person, its secrets hidden."""
    return " ".join(redacted_argv(argv(pid)))[:_LONGEST_SHOWN] or None


def sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process has open."""
    found = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)  # noqa: PTH115 (thousands of them)
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def everybody() -> list[int]:
    """Return all processes of this host."""
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / _TICKS_A_SECOND
