"""One look at a host, a unit, its environment, its model and its GPUs: `facts`."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path
from typing import Any

from blocks.supervisor import (
    cgroups,
    environment,
    gpus,
    left_overs,
    patience,
    tools,
    units,
    users,
    uv,
)
from blocks.supervisor.secrets import redacted_argv
from blocks.supervisor.work import Work

_ENVIRONMENT_SECONDS = 15
_SIZE_SECONDS = 30
_MODEL_SECONDS = 10
_UV_SECONDS = 10
_GONE = " (deleted)"
_MOST_NAMED = 10


def facts(arguments: dict[str, Any], work: Work | None = None) -> dict[str, Any]:
    """Return the facts; nothing is changed and nothing of the environment is run."""
    del work
    unit = units.facts(arguments["unit"])
    group = unit["control_group"]
    found, used_by = environment_and_uv(arguments["environment"])
    return {
        "host": host(),
        "uv": used_by,
        "unit": unit,
        "process": process(unit["main_pid"]),
        "replaced": replaced(group, arguments["environment"]),
        "environment": {
            **found,
            "others": users.others(arguments["environment"], arguments["unit"], group),
        },
        "model": model(arguments["model"]) if arguments["model"] else None,
        "gpus": gpus.facts(group),
        "tools": tools.facts(
            arguments["unit"], unit["environment_files"], arguments["environment"]
        ),
        "left_overs": left_overs.left_overs(unit),
    }


def host() -> dict[str, Any]:
    """Return what the machine is."""
    return {
        "name": platform.node(),
        "os": _os_name(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "boot_id": boot_id(),
        "time": time.time(),
    }


def boot_id() -> str:
    """Return what tells this boot of the machine from every other one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process(pid: int | None) -> dict[str, Any] | None:
    """Return the command line of a process as it runs."""
    if pid is None:
        return None
    with contextlib.suppress(OSError):
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        argv = [part.decode("utf-8", "replace") for part in raw.split(b"\x00")[:-1]]
        executable = os.fspath(Path(f"/proc/{pid}/exe").readlink())
        return {"pid": pid, "argv": redacted_argv(argv), "executable": executable}
    return None


def replaced(control_group: str | None, environment_path: str) -> list[str]:
    """Return files of an environment that processes have in use and that are no longer there.

    What runs is then not what lies on the disk. At most ten of them are named.
    """
    found: set[str] = set()
    for pid in cgroups.members(control_group) if control_group else ():
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines():
                path = line.partition("/")[2]
                if path.endswith(_GONE) and f"/{path}".startswith(f"{environment_path}/"):
                    found.add(f"/{path[: -len(_GONE)]}")
    return sorted(found)[:_MOST_NAMED]


def environment_and_uv(path: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the environment's facts and its uv; a dead file server is a problem, not a wait."""
    looked = patience.within(_ENVIRONMENT_SECONDS, path, lambda: environment.facts(path))
    if looked.problem:
        found = {"path": path, "exists": False, "packages": [], "problem": looked.problem}
        return found, None
    if not looked.value["exists"]:
        return {**looked.value, "problem": None}, None
    folder = Path(path)
    used = patience.within(_SIZE_SECONDS, path, lambda: environment.used_bytes(folder))
    used_by = patience.within(_UV_SECONDS, "uv", lambda: uv.facts(path))
    problems = [
        f"{what} is not known: {one.problem}"
        for what, one in (("its size", used), ("uv", used_by))
        if one.problem
    ]
    found = {**looked.value, "used_bytes": used.value, "problem": "; ".join(problems) or None}
    return found, used_by.value


def model(path: str) -> dict[str, Any]:
    """Return the model's config.json; a server of files that hangs is a problem, not a wait."""
    there = patience.within(_MODEL_SECONDS, path, lambda: Path(path).is_dir())
    if there.problem or not there.value:
        return {"path": path, "exists": False, "config": None, "problem": there.problem}
    config = patience.read_json(f"{path}/config.json", _MODEL_SECONDS)
    return {"path": path, "exists": True, "config": config.value, "problem": config.problem}


def _os_name() -> str:
    for name in ("/etc/os-release", "/usr/lib/os-release"):
        with contextlib.suppress(OSError):
            for line in Path(name).read_text("utf-8", "replace").splitlines():
                if line.startswith("PRETTY_NAME="):
                    return line.partition("=")[2].strip("\"'")
    return platform.system()
