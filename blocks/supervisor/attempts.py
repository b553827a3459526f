"""How often a redeploy has started its new release, told by its operations alone. Pure."""

from __future__ import annotations

import re
from typing import Any, Callable

_ATTEMPT = re.compile(r"/attempt-(\d+)/([a-z0-9-]+)$")
_OF_A_START = ("swap", "start", "watch", "hold")
_NOT_SEEN = "It was not seen to serve as it should."


def attempts(
    done: list[dict[str, Any]], error_of: Callable[[str], str], *, serves: bool
) -> list[dict[str, Any]]:
    """Return the attempts of a redeploy as its record has them.

    Args:
        done: Its operations, in the order of their first start.
        error_of: Returns what went wrong in an operation; "" if nothing is known to have.
        serves: Whether the last start serves.
    """
    last: dict[int, tuple[str, str]] = {}
    for one in done:
        found = _ATTEMPT.search(one["operation"])
        if found and one["verb"] in _OF_A_START:
            last[int(found[1])] = (found[2], one["operation"])
    told = [_failed(number, *last[number], error_of) for number in sorted(last)]
    if told and serves:
        told[-1] = {"number": told[-1]["number"], "outcome": "healthy"}
    return told


def _failed(
    number: int, step: str, operation: str, error_of: Callable[[str], str]
) -> dict[str, Any]:
    why = error_of(operation) or _NOT_SEEN
    return {"number": number, "outcome": "failed", "failed_step": step, "failure": why}
