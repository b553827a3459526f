"""How a start gets on, shown: lines in the log, a progress artifact, a live line, a warning."""

import logging
from typing import Any

from prefect.artifacts import create_progress_artifact, update_progress_artifact

from tasks.artifacts import best_effort, key, publish
from tasks.live import LIVE
from tasks.markdown import fenced, inert
from tasks.redeployment import Redeployment
from tasks.startup.history import Estimate, History
from tasks.startup.progress import spell


class Shown:
    """Shows every progress that the host tells of one start."""

    def __init__(self, run: Redeployment, history: History) -> None:
        self._run = run
        self._history = history
        self._stage = ""
        self._artifact: Any = None
        self._warned = ""

    def __call__(self, progress: dict[str, Any]) -> None:
        """Show one progress of the supervisor's `watch`."""
        estimate = _estimate(progress, self._history)
        line = in_words(progress, estimate)
        stage = str(progress.get("stage") or "")
        if stage != self._stage:
            self._run.log(line)
            self._stage = stage
        self._warn(progress.get("judgement") or {}, progress.get("doing") or [])
        LIVE.info("%s", line)
        with best_effort(self._run, "the progress"):
            self._publish(_percent(progress, estimate), line)

    def _warn(self, judgement: dict[str, Any], doing: list[str]) -> None:
        """Say once a stage that nothing moves, and what the processes do meanwhile."""
        if judgement.get("kind") not in ("slow", "stalled") or self._warned == self._stage:
            return
        self._warned = self._stage
        why = str(judgement.get("why", ""))
        self._run.log(why, logging.WARNING)
        page = f"# {inert(why)}\n\n{fenced(chr(10).join(doing) or 'not known')}"
        publish(self._run, "slow-start", page, why)

    def _publish(self, percent: float, line: str) -> None:
        if self._artifact is None:
            name = key(self._run, "start-up")
            self._artifact = create_progress_artifact(percent, key=name, description=line)
        else:
            update_progress_artifact(self._artifact, percent, description=line)


def _estimate(progress: dict[str, Any], history: History) -> Estimate | None:
    return history.eta(
        str(progress.get("stage") or ""),
        float(progress.get("seconds_in_stage") or 0.0),
        progress.get("percent"),
        progress.get("cache"),
    )


def _percent(progress: dict[str, Any], estimate: Estimate | None) -> float:
    """Return how much of the whole start is done, or else of its stage."""
    elapsed = float(progress.get("elapsed") or 0.0)
    if estimate is None or estimate.partial:
        return float(progress.get("percent") or 0.0)
    return round(100 * elapsed / max(0.001, elapsed + estimate.seconds), 1)


def in_words(progress: dict[str, Any], estimate: Estimate | None) -> str:
    """Return one progress as a line: stage, how much of it, how fast, how long it still takes."""
    said = str(progress.get("says") or progress.get("stage") or "waiting")
    if estimate is None:
        return said
    of_what = "this stage" if estimate.partial else "ready"
    return f"{said}; {of_what} in about {spell(estimate.seconds)} ({estimate.basis})"
