"""The course of a start as it is told: its stages in time, and its last lines."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any, NamedTuple

from tasks.startup.progress import Progress
from tasks.startup.stages import LAUNCHED

LONGEST_LINE = 2000
_SYSTEMD = 1


class Reached(NamedTuple):
    """How far a launch had come: its stage, that in words, and all its stages."""

    stage: str
    where: str
    stages: list[dict[str, Any]]


class Trace:
    """What the lines of a start have told so far, over its restarts.

    `how` is of the present launch; times that are told are seconds since the first one.
    """

    def __init__(self, started: float, lines: int) -> None:
        self._started = started
        self._lines: collections.deque[str] = collections.deque(maxlen=lines)
        self._over: list[Reached] = []
        self.how = Progress(started)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Take in one entry of the journal."""
        self._lines.append(str(entry["message"])[:LONGEST_LINE])
        if entry["pid"] != _SYSTEMD:
            self.how.add(entry)
            return
        reached, restarts = self.reached(entry["time"]), self.how.restarts
        self.how.add(entry)
        if self.how.restarts > restarts:
            self._over.append(reached)

    def serve(self, time: float) -> None:
        """Take in that it serves."""
        self.how.ready(time)

    def last_lines(self) -> list[str]:
        """Return the newest lines, oldest first."""
        return list(self._lines)

    def stages(self, now: float) -> list[dict[str, Any]]:
        """Return each stage of the present launch, with when it began and how long it took."""
        before = self.how.started - self._started
        return [{**stage, "at": round(stage["at"] + before, 3)} for stage in self.how.stages(now)]

    def progress(self, now: float) -> dict[str, Any]:
        """Return how far it is, for a person who waits."""
        return {
            "stage": self.how.stage,
            "detail": self.how.detail,
            "percent": self.how.percent,
            "rate": self.how.rate,
            "seconds_left": self.how.seconds_left,
            "elapsed": round(now - self._started, 1),
            "seconds_in_stage": round(self.how.seconds_in_stage(now), 1),
            "cache": self.how.cache,
            "says": self.how.says(now),
        }

    def reached(self, now: float, restarts: int | None = None) -> Reached:
        """Return how far it has come; or had come in the launch after so many restarts."""
        if restarts is not None and restarts < len(self._over):
            return self._over[restarts]
        return Reached(self.how.stage, self._where(), self.stages(now))

    def _where(self) -> str:
        if self.how.stage == LAUNCHED:
            return "before vLLM spoke"
        percent = "" if self.how.percent is None else f" at {self.how.percent:.0f}%"
        return f"in stage {self.how.stage!r}{percent}"
