"""What a redeploy has undertaken on an environment.

Written before the service is stopped, with all that the way back needs, and gone once the end is
recorded. While it is there the guard of the environment watches over it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

from blocks.supervisor import guard_unit, store
from blocks.supervisor.arguments import READY_PATIENCE_SECONDS
from blocks.supervisor.failures import Refusal

_WAIT_SECONDS = 600.0
REVERT, DISCARD = "revert", "discard"
ENDS_OTHERS = (REVERT, DISCARD)
"""What ends all that still runs of its redeploy, before it begins."""
STOPS = ("stop", "swap", REVERT)
"""The verbs that stop a service."""
STILL_DRAINED = "STILL DRAINED until it is gone on with"
"""What the host's verdict holds where a service was not put back into its router."""
ALWAYS = frozenset(
    (REVERT, "remember", "record", "facts", "journal", "resolve", "verify", DISCARD, "prune")
)
"""What may begin also when the host goes back or has recorded the end; nothing else may."""


def revert_of(holder: str) -> str:
    """Return the name of the operation that takes a redeploy back; there is one, whoever asks."""
    return f"{holder}/{REVERT}"


def back_at(undertaken: dict[str, Any]) -> str:
    """Return the version that runs once what was undertaken has been taken back."""
    return str(undertaken["record"]["after" if undertaken["back_to"] else "before"])


def patience(undertaken: dict[str, Any]) -> float:
    """Return how long a service may take to answer as it should, in seconds."""
    seconds: float = undertaken.get("ready_patience_seconds", READY_PATIENCE_SECONDS)
    return seconds  # an earlier version of this program did not write it down


def asking(undertaken: dict[str, Any], verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked of `ensure` on behalf of a redeploy, by its host itself."""
    return {
        "operation": f"{undertaken['holder']}/{verb}",
        "verb": verb,
        "holder": undertaken["holder"],
        "environment": undertaken["environment"],
        "arguments": arguments,
        "wait_seconds": _WAIT_SECONDS,
    }


def read(root: Path, environment: str) -> dict[str, Any] | None:
    """Return what has been undertaken on an environment and has come to no end, or None."""
    return store.read(path_of(root, environment))


def known(root: Path) -> list[dict[str, Any]]:
    """Return what is under way on each environment, or else what was last."""
    found = {}
    for folder in ("last", "open"):
        for path in sorted((root / folder).glob("*.json")):
            found[path.name] = {**(store.read(path) or {}), "open": folder == "open"}
    return list(found.values())


def read_by_key(root: Path, key: str) -> dict[str, Any] | None:
    """Return the same by the short name of the environment."""
    return store.read(root / "open" / f"{key}.json")


def require_guard(root: Path, asked: dict[str, Any], done: list[dict[str, Any]]) -> None:
    """Have the guard at work before a service is first stopped by a redeploy that was opened.

    Raises:
        Refusal: It does not get to work, so that nobody would go back.
    """
    undertaken = read(root, asked["environment"])
    if undertaken and undertaken["holder"] == asked["holder"] and not has_stopped(done):
        guard_unit.stand(store.key_of(asked["environment"]))


def require_staged(arguments: dict[str, Any]) -> None:
    """Look for the new environment before the service is stopped for it.

    Raises:
        Refusal: Somebody has removed it.
    """
    if not Path(arguments["sibling"]).is_dir():
        raise Refusal(
            "nothing-staged",
            f"The new environment is not at {arguments['sibling']} any more. "
            "The service was not stopped.",
            "Begin another redeploy.",
        )


def close(root: Path, environment: str, holder: str) -> None:
    """Forget what a redeploy has undertaken, and end the guard, which may be who asks for it."""
    path = path_of(root, environment)
    document = store.read(path)
    if document is None or document["holder"] == holder:
        if document is not None:
            store.write(_last(root, environment), document)
            path.unlink(missing_ok=True)
            store.sync_folder(path.parent)
        guard_unit.remove(store.key_of(environment))


@contextlib.contextmanager
def gate(
    root: Path, asked: dict[str, Any], under: Callable[[str], list[dict[str, Any]]]
) -> Iterator[None]:
    """Let operations of an environment begin one at a time, and none against the way back.

    Args:
        root: The state folder.
        asked: What is to begin.
        under: Returns the operations of a redeploy so far; asked once nobody else can begin one.

    Raises:
        Refusal: The host goes back, has recorded the end, or has given the redeploy up.
    """
    with store.guarded(path_of(root, asked["environment"]).with_suffix(".gate")):
        holder = asked["holder"]
        if asked["verb"] == DISCARD:
            _require_not_stopped(holder, under(holder))
        if asked["verb"] not in ALWAYS:
            _require_ahead(holder, under(holder), read(root, asked["environment"]))
        yield


def _require_ahead(
    holder: str, done: list[dict[str, Any]], undertaken: dict[str, Any] | None
) -> None:
    if any(one["operation"] == revert_of(holder) for one in done):
        raise Refusal(
            "goes-back",
            "The host goes back to the old release: it had heard nothing of this redeploy for too "
            "long, or somebody told it to.",
            f"See how it ended: redeploy resume {holder}",
        )
    if has_ended(done):
        raise Refusal(
            "has-ended",
            f"The redeploy {holder} has ended; its end is recorded.",
            "Begin another one.",
        )
    opened = any(one["verb"] == "open" and one["state"] == "succeeded" for one in done)
    closed = opened and (undertaken is None or undertaken["holder"] != holder)
    if closed or any(one["verb"] == DISCARD for one in done):
        raise Refusal(
            "given-up",
            f"The host has given the redeploy {holder} up before it stopped the service: it had "
            "heard nothing of it for too long, or somebody told it to.",
            "Begin another one.",
        )


def _require_not_stopped(holder: str, done: list[dict[str, Any]]) -> None:
    if has_stopped(done):
        raise Refusal(
            "has-stopped",
            f"The redeploy {holder} was told to stop the service; what it has staged was left.",
            "Go back, or go on with it.",
        )


def has_ended(done: list[dict[str, Any]]) -> bool:
    """Tell by its operations whether the end of a redeploy is recorded."""
    return any(one["verb"] == "record" and one["state"] == "succeeded" for one in done)


def has_stopped(done: list[dict[str, Any]]) -> bool:
    """Tell whether a redeploy was ever told to stop the service."""
    return any(one["verb"] in STOPS for one in done)


def is_drained(done: list[dict[str, Any]]) -> bool:
    """Tell whether a redeploy has taken the service out of its router and not put it back."""
    notes = [one["operation"].rpartition("/")[2].rpartition("-")[0] for one in done]
    return notes.count("draining") > notes.count("undrained")


def _last(root: Path, environment: str) -> Path:
    return root / "last" / f"{store.key_of(environment)}.json"


def path_of(root: Path, environment: str) -> Path:
    """Return where it is written down."""
    return root / "open" / f"{store.key_of(environment)}.json"
