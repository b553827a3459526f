"""What systemd knows about a unit. LoadState is read always: an unknown unit looks successful."""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, foreign, processes, scope
from blocks.supervisor.failures import Failure
from blocks.supervisor.secrets import redacted, redacted_argv

_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "ExecMainStatus",
    "ExecMainCode",
    "ExecMainExitTimestampMonotonic",
    "MainPID",
    "InvocationID",
    "NRestarts",
    "ActiveEnterTimestampMonotonic",
    "FragmentPath",
    "DropInPaths",
    "User",
    "EnvironmentFiles",
    "NeedDaemonReload",
    "ControlGroup",
)
_ENVIRONMENT_FILE = re.compile(r"^(?P<path>.*?)(?: \(ignore_errors=(?:yes|no)\))?$")
_LARGEST_FILE = 65536


def parse_show(text: str) -> dict[str, list[str]]:
    """Return the values of `systemctl show`; a property can come several times."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator:
            values.setdefault(name, []).append(value)
    return values


def state(unit: str, timeout: float = 30) -> dict[str, Any]:
    """Return the state of a unit as `systemctl show` has it.

    Raises:
        Failure: systemd did not answer, or not in time.
    """
    ended = processes.run(commands.show(unit, _PROPERTIES), timeout=timeout)
    if ended.exit != 0:
        raise Failure(
            "no-systemd",
            f"systemctl show {unit} failed: {foreign.last_words(ended.errors, 500)}",
            "Check that systemd of this host answers.",
        )
    return as_state(parse_show(ended.output), time.time() - time.monotonic())


def as_state(shown: dict[str, list[str]], boot_time: float) -> dict[str, Any]:
    """Return our names and types for what `systemctl show` printed."""

    def one(name: str) -> str:
        return shown.get(name, [""])[0]

    def moment(name: str) -> float | None:
        since_boot = _whole(one(name))
        return round(boot_time + since_boot / 1e6, 3) if since_boot else None

    return {
        "load_state": one("LoadState"),
        "active_state": one("ActiveState"),
        "sub_state": one("SubState"),
        "result": one("Result"),
        "exec_main_status": _whole(one("ExecMainStatus")),
        "exec_main_code": _whole(one("ExecMainCode")),
        "exec_main_exited": moment("ExecMainExitTimestampMonotonic"),
        "main_pid": _whole(one("MainPID")) or None,
        "invocation_id": one("InvocationID") or None,
        "n_restarts": _whole(one("NRestarts")) or 0,
        "active_since": moment("ActiveEnterTimestampMonotonic"),
        "fragment": one("FragmentPath") or None,
        "drop_ins": one("DropInPaths").split(),
        "user": one("User") or scope.now().user,
        "environment_files": [
            _ENVIRONMENT_FILE.sub(r"\g<path>", value)
            for value in shown.get("EnvironmentFiles", [])
            if value
        ],
        "needs_daemon_reload": one("NeedDaemonReload") == "yes",
        "control_group": one("ControlGroup") or None,
    }


def facts(unit: str) -> dict[str, Any]:
    """Return the state of a unit with its command lines and the text of its files."""
    found = state(unit)
    paths = [path for path in (found["fragment"], *found["drop_ins"]) if path]
    return {
        "name": unit,
        **found,
        "exec_start": exec_start(unit),
        "files": {path: _text(path) for path in paths},
    }


def files_as_they_are(unit: str) -> dict[str, str]:
    """Return a unit's file, drop-ins and environment files, secrets and all: for root alone."""
    found = state(unit)
    texts = {}
    for path in (found["fragment"], *found["drop_ins"], *found["environment_files"]):
        with contextlib.suppress(OSError, TypeError):
            texts[path] = Path(path).read_bytes()[:_LARGEST_FILE].decode("utf-8", "replace")
    return texts


def exec_start(unit: str) -> list[list[str]]:
    """Return the argument vectors of a unit's ExecStart=; none when they cannot be told."""
    ended = processes.run(commands.service_property(unit, "ExecStart"))
    try:
        return [redacted_argv(command[1]) for command in json.loads(ended.output)["data"]]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return []


def _text(path: str) -> str:
    try:
        return redacted(Path(path).read_bytes()[:_LARGEST_FILE].decode("utf-8", "replace"))
    except OSError as error:
        return f"(could not be read: {error})"


def _whole(value: str) -> int | None:
    return int(value) if value.isdigit() else None
