"""Who else lives from an environment: units whose command lies in it, and processes that run it.

Found by systemd's own list and by what runs, since a unit may start through a script.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from blocks.supervisor import cgroups, commands, proc, processes, units

_UNIT_OF = re.compile(r"/([^/]+\.(?:service|scope))(?:/|$)")


def others(environment: str, unit: str, control_group: str | None) -> list[dict[str, Any]]:
    """Return what else uses an environment: `unit` or null, `pid` or null, and the `command`.

    Args:
        environment: Its path.
        unit: The unit that is known.
        control_group: Where that unit's processes are.
    """
    found: list[dict[str, Any]] = [
        {"unit": name, "pid": None, "command": command[:500]}
        for name, command in _units(environment)
        if name != unit
    ]
    named = {one["unit"] for one in found}
    for pid in proc.everybody():
        if control_group and cgroups.holds(control_group, pid):
            continue
        if _runs_from(environment, pid):
            owner = _unit_of(pid)
            if owner is None or owner not in named:
                found.append({"unit": owner, "pid": pid, "command": proc.command(pid)})
    return found


def parse_units(text: str, environment: str) -> list[tuple[str, str]]:
    """Return the units, and their commands, that `systemctl show` says begin in an environment."""
    found = []
    for block in text.split("\n\n"):
        shown = units.parse_show(block)
        for name in shown.get("Id", []):
            for command in shown.get("ExecStart", []):
                if f"path={environment}/" in command or f" {environment}/" in command:
                    found.append((name, command))
    return found


def _units(environment: str) -> list[tuple[str, str]]:
    ended = processes.run(commands.show_all_services(("Id", "ExecStart")), timeout=30)
    return parse_units(ended.output, environment) if ended.exit == 0 else []


def _runs_from(environment: str, pid: int) -> bool:
    """Tell whether a process was started from an environment, or has files of it mapped."""
    inside = f"{environment}/"
    argv = proc.argv(pid)
    if any(word.startswith(inside) for word in argv[:2]):
        return True
    with contextlib.suppress(OSError):
        return f" {inside}" in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    return False


def _unit_of(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        names = _UNIT_OF.findall(Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace"))
        return names[-1] if names else None
    return None
