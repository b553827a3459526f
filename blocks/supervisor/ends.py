"""What systemd's own lines say about the ends of a unit's invocations."""

from __future__ import annotations

from typing import Any, NamedTuple

_PROCESS_EXIT = "98e322203f7a4ed290d09fe03c09fe15"
_UNIT_FAILED = "d9b373ed55a64feb8242e02dbe79a49c"
_UNIT_SUCCEEDED = "7ad2d189f7e94e70a38c781354912448"
_SYSTEMD = 1


class End(NamedTuple):
    """An end: when the main process exited badly, when it was over, and whether it was a success.

    Of a main process that exits with 0 systemd says nothing but that the unit is over.
    """

    exit_seen: float | None = None
    over: float | None = None
    clean: bool | None = None


class Ends:
    """The ends that have been told, in their order."""

    def __init__(self) -> None:
        self._by_invocation: dict[str | None, End] = {}

    def take(self, entry: dict[str, Any]) -> None:
        """Take in one line."""
        if entry["pid"] != _SYSTEMD:
            return
        invocation = entry["invocation"]
        known = self._by_invocation.get(invocation, End())
        if entry["message_id"] == _PROCESS_EXIT:
            known = known._replace(exit_seen=entry["time"])
        elif entry["message_id"] in (_UNIT_FAILED, _UNIT_SUCCEEDED):
            clean = entry["message_id"] == _UNIT_SUCCEEDED
            known = known._replace(over=entry["time"], clean=clean)
        else:
            return
        self._by_invocation[invocation] = known

    def after(self, restarts: int) -> End:
        """Return what was told of the end that came after so many restarts."""
        ends = list(self._by_invocation.values())
        return ends[restarts] if restarts < len(ends) else End()
