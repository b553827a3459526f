"""Stops and starts a service: `stop`, `start`."""

from __future__ import annotations

import time
from typing import Any

from blocks.supervisor import commands, foreign, gpus, holders, processes, scope, units
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

_POLL_SECONDS = 0.2
_SOON_SECONDS, _QUICK_POLL_SECONDS = 5.0, 0.03
"""A service that ends soon is not kept waiting for."""
_GPU_POLL_SECONDS = 1.0
_LAUNCH_SECONDS = 30
_STOP_SECONDS = 600
_LEAVING_SECONDS = 5.0
LAUNCHED = "starting"
"""The note of a start that systemd was told, or was about to be."""
_RUNNING = ("active", "activating", "deactivating", "reloading")


def stop(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Stop the unit and wait until it has ended.

    Raises:
        Failure: There is no such unit, systemd refused, or it had not ended in time.
    """
    unit = arguments["unit"]
    _require(unit)
    began = time.monotonic()
    _systemctl(commands.stop(unit), "stop-refused")
    while True:
        state = units.state(unit)
        spent = time.monotonic() - began
        if state["active_state"] not in _RUNNING:
            return {"unit": state, "seconds": round(spent, 3)}
        if spent >= arguments["timeout_seconds"]:
            raise Failure(
                "still-running",
                f"{unit} had not ended {spent:.0f} s after it was told to stop.",
                "systemd goes on stopping it; see TimeoutStopSec of the unit.",
                unit=state,
            )
        work.progress(stage="stopping", detail=state["sub_state"], elapsed=round(spent, 1))
        time.sleep(_POLL_SECONDS if spent > _SOON_SECONDS else _QUICK_POLL_SECONDS)


def start(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Wait for the GPUs, then have systemd start the unit anew; how it fares is for `watch`.

    Raises:
        Failure: A GPU is still held or cannot be looked at, another process listens on the port,
            there is no such unit, or systemd refused.
    """
    unit = arguments["unit"]
    noted = work.recall(LAUNCHED)
    if noted is not None:
        state = units.state(unit)
        if state["invocation_id"] not in (None, noted["before"]):
            return _launched(state["invocation_id"], noted)
    else:
        waited = _wait_for_gpus(arguments, work)
        before = _require(unit) if arguments.get("prepared") else prepare(unit)
        if before["active_state"] in _RUNNING:
            # A reboot, or somebody, has started it since: what runs is not what is meant.
            stop({"unit": unit, "timeout_seconds": _STOP_SECONDS}, work)
        if arguments["port"] is not None:
            _require_free(arguments["port"], unit)
        noted = {
            "before": before["invocation_id"],
            "started": time.time(),
            "gpus_waited_seconds": waited,
        }
        work.note(LAUNCHED, noted)
    processes.run(commands.reset_failed(unit))
    _systemctl(commands.start(unit), "start-refused")
    deadline = time.monotonic() + _LAUNCH_SECONDS
    while time.monotonic() < deadline:
        invocation = units.state(unit)["invocation_id"]
        if invocation not in (None, noted["before"]):
            return _launched(invocation, noted)
        time.sleep(0.05)
    raise Failure(
        "start-refused",
        f"systemd took the order to start {unit} and had not launched it after "
        f"{_LAUNCH_SECONDS} s.",
        f"See `{scope.by_hand('systemctl', 'list-jobs')}`: another job may be in its way.",
        unit=units.state(unit),
    )


def prepare(unit: str) -> dict[str, Any]:
    """Have systemd read its unit files, and return the unit's state.

    Raises:
        Failure: systemd refused, or there is no such unit.
    """
    _systemctl(commands.daemon_reload(), "start-refused")
    return _require(unit)


def above_baseline(
    found: list[dict[str, Any]], baseline: dict[str, int], tolerance: int
) -> list[dict[str, Any]]:
    """Return the GPUs that hold more memory than without this service."""
    return [
        gpu
        for gpu in found
        if str(gpu["index"]) in baseline
        and gpu["memory_used"] > baseline[str(gpu["index"])] + tolerance
    ]


def not_seen(found: dict[str, Any], baseline: dict[str, int]) -> str | None:
    """Return why it is not known whether the GPUs of a baseline are free, or None."""
    if found["problem"]:
        return str(found["problem"])
    there = {str(gpu["index"]) for gpu in found["gpus"]}
    missing = sorted(baseline.keys() - there)
    return f"the driver lists no GPU {', '.join(missing)}" if missing else None


def _wait_for_gpus(arguments: dict[str, Any], work: Work) -> float:
    baseline, began = arguments["baseline"], time.monotonic()
    while baseline:
        found = gpus.facts()
        problem = not_seen(found, baseline)
        busy = above_baseline(found["gpus"], baseline, arguments["tolerance_bytes"])
        spent = time.monotonic() - began
        if not busy and not problem:
            return round(spent, 3)
        if spent >= arguments["gpu_wait_seconds"]:
            raise _busy(busy, baseline, spent) if busy else _unknown(str(problem), spent)
        indexes = ", ".join(str(gpu["index"]) for gpu in busy)
        detail = f"GPU {indexes}" if busy else problem
        work.progress(stage="waiting for GPUs", detail=detail, elapsed=round(spent, 1))
        time.sleep(_GPU_POLL_SECONDS)
    return 0.0


def _unknown(problem: str, spent: float) -> Failure:
    return Failure(
        "gpus-unknown",
        f"After {spent:.0f} s it is not known whether the service's GPUs are free: {problem}.",
        "See what nvidia-smi and the kernel's log say; the service was not started.",
        problem=problem,
    )


def _busy(busy: list[dict[str, Any]], baseline: dict[str, int], spent: float) -> Failure:
    holders = sorted({process["pid"] for gpu in busy for process in gpu["processes"]})
    names = ", ".join(
        f"GPU {gpu['index']} ({gpu['memory_used'] >> 20} MiB used, "
        f"{baseline[str(gpu['index'])] >> 20} MiB without the service)"
        for gpu in busy
    )
    return Failure(
        "gpus-busy",
        f"Memory is still held after {spent:.0f} s: {names}; by processes {holders or 'unknown'}.",
        "Look at what these processes are; the service was not started.",
        pids=holders,
        gpus=busy,
    )


def _require_free(port: int, unit: str) -> None:
    """Give a process that is just leaving some time, then refuse to start beside it."""
    argv = next(reversed(units.exec_start(unit)), [])
    look, deadline = holders.PortLook(port), time.monotonic() + _LEAVING_SECONDS
    while others := look.look(None, lambda: argv).others:
        if time.monotonic() >= deadline:
            raise Failure(
                "port-taken",
                f"{unit} was not started: {holders.sentence(port, others)}.",
                f"See what it is (ss -ltnp 'sport = :{port}') and end it.",
                holders=others,
            )
        time.sleep(_POLL_SECONDS)


def _launched(invocation: str, noted: dict[str, Any]) -> dict[str, Any]:
    return {
        "invocation": invocation,
        "started": noted["started"],
        "gpus_waited_seconds": noted["gpus_waited_seconds"],
    }


def _require(unit: str) -> dict[str, Any]:
    state = units.state(unit)
    if state["load_state"] != "loaded":
        raise Failure(
            "no-such-unit",
            f"systemd cannot load {unit}: LoadState={state['load_state']}.",
            f"See `{scope.by_hand('systemctl', 'status', unit)}`.",
            unit=state,
        )
    return state


def _systemctl(argv: commands.Argv, kind: str) -> None:
    ended = processes.run(argv, timeout=120)
    if ended.exit != 0:
        raise Failure(
            kind,
            f"{' '.join(argv)} was refused: {foreign.last_words(ended.errors, 1000)}",
            f"See `{scope.by_hand('systemctl', 'status')}` of the unit.",
        )
