"""Who holds an environment: one redeploy at a time, and a dead holder is recognised."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Callable

from blocks.supervisor import store
from blocks.supervisor.failures import Refusal


class Locks:
    """The locks of one host.

    Args:
        kept: Where they lie.
        at_work: Tells whether an operation of a holder runs now.
        half_done: Tells whether a holder has stopped the service and come to no end.
    """

    def __init__(
        self,
        kept: store.Store,
        at_work: Callable[[str], bool],
        half_done: Callable[[str], bool],
    ) -> None:
        self._kept = kept
        self._folder = kept.locks
        self._at_work = at_work
        self._half_done = half_done

    def take(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Take the lock on an environment, or take it again.

        Raises:
            Refusal: Somebody else holds it and is alive, or there is no room for the reserve, and
                this holder neither holds it already nor has to be let go on to an end.
        """
        path = self._path(asked["environment"])
        with self._guarded(path):
            held = store.read(path)
            other = held is not None and held["holder"] != asked["holder"]
            if held and other and not self._dead(held):
                raise _locked(held)
            if held and other and self._half_done(held["holder"]):
                raise _unfinished(held)
            mine = held is not None and not other
            self._keep_reserve(needed=not mine and not self._half_done(asked["holder"]))
            now = time.time()
            since = held["since"] if held and not other else now
            if not mine:  # a line too many is better than one that a power cut has cost
                why = {key: asked[key] for key in ("environment", "who", "why")}
                over = {"taken_over": held["holder"]} if held else {}
                self._log("locked", asked["holder"], **why, **over)
            try:
                store.write(path, {**asked, "since": since, "renewed": now})
            except OSError:
                if not mine:
                    self._log("unlocked", asked["holder"], environment=asked["environment"])
                    raise
            return {"acquired": True, "taken_over": held if other else None}

    def give_back(self, environment: str, holder: str) -> dict[str, Any]:
        """Give a lock back; not an error when it is gone or another's by now."""
        path = self._path(environment)
        with self._guarded(path):
            held = store.read(path)
            mine = held is not None and held["holder"] == holder
            if mine:
                self._log("unlocked", holder, environment=environment)
                path.unlink()
                store.sync_folder(path.parent)
            return {"released": mine}

    def renew(self, environment: str, holder: str) -> None:
        """Renew the lease of the holder; a host that cannot write it down goes on all the same.

        Raises:
            Refusal: This holder does not hold the lock.
        """
        path = self._path(environment)
        with self._guarded(path):
            held = store.read(path)
            if held is None:
                raise Refusal(
                    "not-locked",
                    f"{holder} does not hold the lock on {environment}; nobody does.",
                    "Take the lock first.",
                )
            if held["holder"] != holder:
                raise _locked(held)
            with contextlib.suppress(OSError):
                store.write(path, {**held, "renewed": time.time()})

    def renewed(self, environment: str, holder: str) -> float | None:
        """Return when a holder was last heard of, or None if it does not hold the lock."""
        held = store.read(self._path(environment))
        return held["renewed"] if held and held["holder"] == holder else None

    def all(self, environment: str | None = None) -> list[dict[str, Any]]:
        """Return the locks that are held, dead ones marked so."""
        paths = [self._path(environment)] if environment else sorted(self._folder.glob("*.json"))
        held = [one for one in map(store.read, paths) if one]
        return [{**one, "dead": self._dead(one)} for one in held]

    def _log(self, event: str, holder: str, **more: Any) -> None:
        named = {"operation": f"{holder}/lock", "verb": "lock", "holder": holder}
        with contextlib.suppress(OSError):
            self._kept.log(event, **named, **more)

    def _keep_reserve(self, *, needed: bool) -> None:
        """Lay the reserve; who is under way already is not barred from going back without it."""
        try:
            self._kept.keep_reserve()
        except Refusal:
            if needed:
                raise

    def _dead(self, held: dict[str, Any]) -> bool:
        over = time.time() > held["renewed"] + held["lease_seconds"]
        return over and not self._at_work(held["holder"])

    def _path(self, environment: str) -> Path:
        return self._folder / f"{store.key_of(environment)}.json"

    def _guarded(self, path: Path) -> contextlib.AbstractContextManager[bool]:
        return store.guarded(path.with_suffix(".guard"))


def _locked(held: dict[str, Any]) -> Refusal:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(held["since"]))
    fields = {key: held[key] for key in ("holder", "who", "why", "since", "renewed")}
    return Refusal(
        "locked",
        f"{held['environment']} is held by {held['holder']} ({held['who']}: {held['why']}) "
        f"since {since}.",
        f"Wait for it to end. If its run is dead, go on with it: redeploy resume {held['holder']}",
        **fields,
    )


def _unfinished(held: dict[str, Any]) -> Refusal:
    return Refusal(
        "unfinished",
        f"The redeploy {held['holder']} ({held['who']}: {held['why']}) fell silent after it had "
        f"stopped the service or drained it, and has come to no end.",
        f"Go on with it: redeploy resume {held['holder']}",
        holder=held["holder"],
    )
