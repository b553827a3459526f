"""What the processes of a unit are doing, in sentences: states, kernel wait channels, sockets."""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from blocks.supervisor import cgroups, foreign, patience, ports, proc

MOST_SENTENCES = 40
_SECONDS = 5.0
_MOST_GROUPS = 4
_MOST_THREADS = 4000
_NOBODY = "The unit has no processes."
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in an uninterruptible wait",
    "T": "stopped",
    "t": "being traced",
    "Z": "dead, and not waited for",
    "X": "dead",
    "I": "idle",
}
_CONNECTIONS = {
    "01": "established",
    "02": "trying to connect",
    "03": "being accepted",
    "04": "closing",
    "05": "closing",
    "06": "closing",
    "07": "closing",
    "08": "closed by its peer",
    "09": "closing",
    "0A": "listening",
    "0B": "closing",
}


class Socket(NamedTuple):
    """A TCP socket: what it is doing, its own address and its peer's, each with the port."""

    state: str
    own: str
    peer: str


class Thread(NamedTuple):
    """A thread: the letter of its state, and where in the kernel it waits ("" if nowhere)."""

    state: str
    waits_in: str


def doing(control_group: str | None, main_pid: int | None) -> list[str]:
    """Say what the processes of a control group are doing, the main process first.

    What cannot be looked at is said; a process that the kernel holds does not hold us.
    """
    if not control_group:
        return [_NOBODY]
    look = patience.within(_SECONDS, "its processes", lambda: _look(control_group, main_pid))
    if look.problem is not None:
        return [f"What its processes do could not be looked at: {look.problem}."]
    return [foreign.safe(str(one)) for one in look.value]


def in_order(pids: set[int], main_pid: int | None) -> list[int]:
    """Return processes, the main one first and the others as they were started."""
    return sorted(pids, key=lambda pid: (pid != main_pid, pid))


def _look(control_group: str, main_pid: int | None) -> list[str]:
    pids = in_order(cgroups.members(control_group), main_pid)
    known = tcp_sockets()
    said = []
    for pid in pids:
        said.append(_process(pid, pid == main_pid))
        said += connections(pid, [known[one] for one in proc.sockets(pid) if one in known])
    return capped([one for one in said if one], MOST_SENTENCES) or [_NOBODY]


def capped(sentences: list[str], most: int) -> list[str]:
    """Return at most so many sentences; the last one says how many are left out."""
    if len(sentences) <= most:
        return sentences
    left = len(sentences) - most + 1
    return [*sentences[: most - 1], f"And {left} more about its other processes."]


def _process(pid: int, is_main: bool) -> str:
    stat = proc.stat(pid)
    if stat is None:
        return ""
    main = ", the main process" if is_main else ""
    return f"{stat.name} ({pid}{main}) {waiting(stat.state, threads(pid))}"


def waiting(state: str, of: list[Thread]) -> str:
    """Say how a process is and where its threads wait."""
    counted = collections.Counter(_thread_words(one) for one in of)
    groups = counted.most_common(_MOST_GROUPS)
    others = len(of) - sum(count for _, count in groups)
    if others:
        groups.append(("elsewhere", others))
    words = ", ".join(f"{count} {what}" for what, count in groups)
    threads_ = "1 thread" if len(of) == 1 else f"{len(of)} threads"
    return f"is {_STATES.get(state, f'in state {state}')}; {threads_}: {words}."


def _thread_words(thread: Thread) -> str:
    if thread.waits_in:
        held = "held" if thread.state == "D" else "waiting"
        return f"{held} in {thread.waits_in}"
    return _STATES.get(thread.state, f"in state {thread.state}")


def threads(pid: int) -> list[Thread]:
    """Return the threads of a process; where they wait is shown to root alone."""
    found = []
    with contextlib.suppress(OSError):
        for folder in itertools.islice(Path(f"/proc/{pid}/task").iterdir(), _MOST_THREADS):
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = proc.parse_stat((folder / "stat").read_text("utf-8", "replace"))
                channel = (folder / "wchan").read_text("utf-8", "replace").strip("\x00 \n")
                found.append(Thread(stat.state, "" if channel == "0" else channel))
    return found


def tcp_sockets() -> Mapping[str, Socket]:
    """Return this host's TCP sockets by inode."""
    found: dict[str, Socket] = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            found.update(parse_sockets(Path(f"/proc/net/{name}").read_text("ascii", "replace")))
    return found


def parse_sockets(table: str) -> dict[str, Socket]:
    """Read a `/proc/net/tcp` or `tcp6`."""
    found = {}
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 10:
            state = _CONNECTIONS.get(fields[3], fields[3])
            found[fields[9]] = Socket(state, _authority(fields[1]), _authority(fields[2]))
    return found


def connections(pid: int, sockets: list[Socket]) -> list[str]:
    """Say with whom a process is connected, or tries to be."""
    listening = sorted({one.own for one in sockets if one.state == "listening"})
    counted = collections.Counter(
        (one.state, one.peer) for one in sockets if one.state != "listening"
    )
    groups = counted.most_common(_MOST_GROUPS)
    others = sum(counted.values()) - sum(count for _, count in groups)
    parts = [f"{count} {state} with {peer}" for (state, peer), count in groups]
    if others:
        parts.append(f"{others} more")
    said = []
    if parts:
        said.append(f"Connections of {pid}: {', '.join(parts)}.")
    if listening:
        said.append(f"{pid} listens on {', '.join(listening[:_MOST_GROUPS])}.")
    return said


def _authority(hexadecimal: str) -> str:
    address, _, port = hexadecimal.rpartition(":")
    host = ports.written(ports.parsed(address))
    return f"[{host}]:{int(port, 16)}" if ":" in host else f"{host}:{int(port, 16)}"
