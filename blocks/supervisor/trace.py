"""The course of a start: its stages in time, and its last lines."""

from __future__ import annotations

import collections
from typing import Any

from tasks.startup.stages import observe, order

LONGEST_LINE = 2000
SERVING = "serving"


class Trace:
    """What the lines of a start have told so far; times are seconds since it was started."""

    def __init__(self, started: float, lines: int) -> None:
        self._started = started
        self._begun: dict[str, float] = {}
        self._lines: collections.deque[str] = collections.deque(maxlen=lines)
        self.stage: str | None = None
        self.detail = ""
        self.percent: float | None = None
        self.rate: str | None = None
        self.seconds_left: float | None = None

    def add(self, time: float, message: str) -> None:
        """Take in one line; only the log's word that it serves is not taken for it."""
        self._lines.append(message[:LONGEST_LINE])
        seen = observe(message)
        if seen is None or seen.stage == SERVING:
            return
        if self.stage is None or order(seen.stage) > order(self.stage):
            self._enter(seen.stage, time)
        if seen.stage == self.stage:
            self.detail = seen.detail
            self.percent = seen.percent
            self.rate = seen.rate
            self.seconds_left = seen.seconds_left

    def serve(self, time: float) -> None:
        """Take in that it serves."""
        self._enter(SERVING, time)

    def last_lines(self) -> list[str]:
        """Return the newest lines, oldest first."""
        return list(self._lines)

    def stages(self, now: float) -> list[dict[str, Any]]:
        """Return each stage with when it began and how long it took, in seconds."""
        names = list(self._begun)
        begun = [self._begun[name] for name in names]
        ends = [*begun[1:], round(now - self._started, 3)]
        return [
            {"name": name, "at": at, "seconds": round(max(0.0, end - at), 3)}
            for name, at, end in zip(names, begun, ends)
        ]

    def progress(self, now: float) -> dict[str, Any]:
        """Return how far it is, for a person who waits."""
        return {
            "stage": self.stage,
            "detail": self.detail,
            "percent": self.percent,
            "rate": self.rate,
            "seconds_left": self.seconds_left,
            "elapsed": round(now - self._started, 1),
        }

    def _enter(self, stage: str, time: float) -> None:
        self._begun.setdefault(stage, round(max(0.0, time - self._started), 3))
        self.stage = stage
        self.detail, self.percent, self.rate, self.seconds_left = "", None, None, None
