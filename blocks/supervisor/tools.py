"""Which programs a service finds: its `PATH`, a CUDA compiler, ninja."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, processes, units
from blocks.supervisor.uv import SYSTEM_PATH, etc_environment

_CUDA = ("CUDA_HOME", "CUDA_PATH")
_WANTED = ("PATH", *_CUDA)
_USUAL_CUDA = "/usr/local/cuda"


def facts(unit: str, environment_files: Iterable[str], environment: str) -> dict[str, Any]:
    """Return where a service looks for programs, and which of those that build kernels it finds.

    Args:
        unit: The unit.
        environment_files: Its files of variables.
        environment: The Python environment.
    """
    variables = _variables(unit, environment_files)
    path = variables.get("PATH") or SYSTEM_PATH
    own = next((variables[name] for name in _CUDA if variables.get(name)), _USUAL_CUDA)
    return {
        "path": path,
        "nvcc": _finds("nvcc", f"{path}:{own}/bin"),
        "ninja": _finds("ninja", path),
        "own_ninja": _finds("ninja", f"{environment}/bin"),
    }


def _finds(program: str, path: str) -> bool:
    return shutil.which(program, path=path) is not None


def _variables(unit: str, environment_files: Iterable[str]) -> dict[str, str]:
    """Return the few variables that matter, as systemd puts them together; the last one holds."""
    manager = processes.run(commands.show_environment()).output.splitlines()
    shown = units.parse_show(processes.run(commands.show(unit, ("Environment",))).output)
    found = {**_assigned(manager), **_assigned(_words(shown.get("Environment", [""])[0]))}
    for file in environment_files:
        found.update(etc_environment(Path(file)))
    return {name: found[name] for name in _WANTED if name in found}


def _assigned(words: Iterable[str]) -> dict[str, str]:
    pairs = (word.partition("=") for word in words)
    return {name: value for name, separator, value in pairs if separator and name in _WANTED}


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
