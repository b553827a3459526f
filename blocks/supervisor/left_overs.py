"""What a unit's earlier starts have left over: `end-left-overs`.

Theirs is proven by the control group alone. A process that has left it, whatever it holds, is
somebody else's.
"""

from __future__ import annotations

import signal
import time
from typing import Any

from blocks.supervisor import cgroups, pidfd, proc, units
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

_ENDED = ("inactive", "failed")
_SECONDS = 30.0


def left_overs(unit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the processes in the control group of a unit that does not run.

    Args:
        unit: The unit's state.
    """
    group = unit["control_group"]
    if unit["active_state"] not in _ENDED or not group:
        return []
    return [{"pid": pid, "command": proc.command(pid)} for pid in sorted(cgroups.members(group))]


def end(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Kill what is left in the control group of a unit that has been stopped, and see it gone.

    Raises:
        Failure: The unit runs, or something is still there.
    """
    unit = arguments["unit"]
    state = units.state(unit)
    if state["active_state"] not in _ENDED:
        raise Failure(
            "runs",
            f"{unit} is {state['active_state']}, so what is in its control group is no left-over.",
            "Nothing was ended. Stop the unit first.",
            unit=state,
        )
    found = left_overs(state)
    noted = (work.recall("found") or {"ended": []})["ended"]
    ended = [*noted, *(one for one in found if one not in noted)]
    work.note("found", {"ended": ended})
    if found:
        _end_all(unit, state["control_group"])
    return {"ended": ended}


def _end_all(unit: str, group: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while members := cgroups.members(group):
        for pid in members:
            _kill(group, pid)
        if time.monotonic() >= deadline:
            raise Failure(
                "still-there",
                f"Processes {sorted(members)} of {unit} are still there {_SECONDS:.0f} s after "
                "SIGKILL.",
                "The kernel holds them, mostly in a driver: see /proc/PID/stack and dmesg.",
                pids=sorted(members),
            )


def _kill(group: str, pid: int) -> None:
    """Kill a process that is in a control group still, and wait a while for its end."""
    process = pidfd.Process(pid)
    try:
        if not process.ended and cgroups.holds(group, pid):
            process.kill(signal.SIGKILL)
            process.wait(1.0)
    finally:
        process.close()
