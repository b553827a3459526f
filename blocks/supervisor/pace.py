"""Whether a start gets on: its limits, its samples, and what is judged by them."""

from __future__ import annotations

import time
from typing import Any, Callable, Protocol

from blocks.supervisor import doing
from blocks.supervisor.samples import Sampler
from tasks.startup.limits import Limits
from tasks.startup.progress import Progress
from tasks.startup.stall import Judgement, Moves, Sample

_SAMPLE_SECONDS = 10.0
_SAMPLES_IN_FLOOR = 6
_LOOK_AGAIN_SECONDS = 300.0


class Sampling(Protocol):
    """What takes samples of a control group; see `Sampler`."""

    def sample(self, control_group: str | None, lines: int) -> Sample:
        """Take one."""

    def close(self) -> None:
        """Take no more."""


class Pace:
    """Judges one start; `slow` are the times at which it was found slow.

    Args:
        arguments: Those of `watch`.
        sampler: What takes the samples.
        look: Says what the processes of a control group do, the main one first.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        sampler: Sampling | None = None,
        look: Callable[[str | None, int | None], list[str]] = doing.doing,
    ) -> None:
        self._limits = Limits(total=arguments["deadline_seconds"]).with_stages(arguments["limits"])
        self._longest: dict[str, float] = arguments["longest"]
        self._floor: float = arguments["stall_floor_seconds"]
        self._interval = min(_SAMPLE_SECONDS, self._floor / _SAMPLES_IN_FLOOR)
        self._sampler = sampler or Sampler()
        self._look = look
        self._moves = Moves()
        self._looked_at = 0.0
        self.due = 0.0
        self.judgement: Judgement | None = None
        self.slow: list[dict[str, Any]] = []
        self.doing: list[str] = []

    def overdue(self, how: Progress, started: float, now: float) -> str | None:
        """Say which limit is passed, if any is."""
        return self._limits.overdue(how.stage, how.seconds_in_stage(now), now - started)

    def look(self, how: Progress, state: dict[str, Any]) -> bool:
        """Take a sample if one is due, and tell whether the start has stalled by it."""
        now = time.monotonic()
        if now < self.due:
            return False
        self.due = now + self._interval
        self._moves.add(self._sampler.sample(state["control_group"], how.news))
        longest = self._longest.get(how.stage)
        self.judgement = self._moves.judge(how.stage, longest, self._floor)
        self._follow_slowness(how.stage, state, self.judgement)
        return self.judgement.kind == "stalled"

    def told(self) -> dict[str, Any]:
        """Return what is judged, for a person who waits."""
        if self.judgement is None:
            return {"judgement": None, "doing": []}
        kind, quiet, why = self.judgement
        judgement = {"kind": kind, "quiet_seconds": round(quiet, 1), "why": why}
        return {"judgement": judgement, "doing": self.doing}

    def close(self) -> None:
        """Take no more samples."""
        self._sampler.close()

    def _follow_slowness(self, stage: str, state: dict[str, Any], judgement: Judgement) -> None:
        if judgement.kind != "slow":
            self.doing = []
            return
        turned = not self.doing or self.slow[-1]["stage"] != stage
        if turned:
            self.slow.append({})
        if turned or time.monotonic() - self._looked_at >= _LOOK_AGAIN_SECONDS:
            self.doing = self._look(state["control_group"], state["main_pid"])
            self._looked_at = time.monotonic()
        self.slow[-1] = {
            "stage": stage,
            "quiet_seconds": round(judgement.quiet_seconds, 1),
            "why": judgement.why,
            "doing": self.doing,
        }
