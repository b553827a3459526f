"""What systemd's word about a unit means for a start."""

from __future__ import annotations

from typing import Any

_EXITED = 1


def verdict(state: dict[str, Any], invocation: str, tolerated: int = 0) -> str | None:
    """Return how a start has died, or None while it lives.

    Args:
        state: What systemd says of the unit now.
        invocation: The start.
        tolerated: How many restarts by systemd do not count as its death.
    """
    if state["load_state"] != "loaded":
        return "gone"
    restarts = state["n_restarts"]
    if restarts > tolerated or (state["invocation_id"] != invocation and restarts == 0):
        return "crashed"
    if state["active_state"] == "failed":
        return "crashed"
    if not _has_ended(state):
        return None
    if _waits_for_restart(state) and restarts < tolerated:
        return None
    return "exited" if _cleanly(state) else "crashed"


def _has_ended(state: dict[str, Any]) -> bool:
    """Tell whether the main process is gone, also while systemd still ends the others."""
    if state["active_state"] == "deactivating":
        return state["main_pid"] is None and bool(state["exec_main_code"])
    return state["active_state"] == "inactive" or _is_between(state)


def _waits_for_restart(state: dict[str, Any]) -> bool:
    return state["active_state"] == "deactivating" or _is_between(state)


def _is_between(state: dict[str, Any]) -> bool:
    return str(state["sub_state"]).startswith("auto-restart")


def _cleanly(state: dict[str, Any]) -> bool:
    how = (state["result"], state["exec_main_code"], state["exec_main_status"])
    return how == ("success", _EXITED, 0)
