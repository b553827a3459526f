"""How far a start has come, by all its lines: several workers, several engines, restarts.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tasks.startup.lines import Line, is_idle_talk, split
from tasks.startup.stages import (
    IMPORTED,
    KV_CACHE,
    LAUNCHED,
    LOADING_WEIGHTS,
    READY,
    STARTING_SERVER,
    UNKNOWN,
    WARM_UP,
    WEIGHTS_LOADED,
    Observation,
    observe_line,
    order,
)

_SYSTEMD = 1
_RESTART = re.compile(r"\S+: Scheduled restart job, restart counter is at \d+")
_ENGINE = re.compile(r"DP(\d{1,4})|EngineCore_(\d{1,4})")
_LINES_BEFORE_THE_FIRST_KNOWN = 20


class Progress:
    """What the lines of a unit have told so far about its present start.

    Weights are loaded by each worker for itself: the least advanced one that tells counts. From
    then on the workers of an engine walk together, so whoever of them speaks counts. Of several
    engines (data parallel) the least advanced one counts. When systemd starts the unit again, or
    another process prints vLLM's banner, all begins anew and `restarts` counts it.

    `stage` is one of `STAGES`, or "loading" where lines have come but none of a known shape.
    `news` counts the lines that say more than that vLLM waits: a stall is judged by it.
    """

    def __init__(self, started: float) -> None:
        self.restarts = 0
        self.news = 0
        self._begin(started)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Take in one journal entry: `time`, `message`, and `pid` where it is known."""
        time, pid = entry["time"], entry.get("pid")
        for line in split(entry["message"]):
            if pid == _SYSTEMD and line.pid is None:
                if _RESTART.match(line.text):
                    self._begin_again(time)
                continue
            self._heard += 1
            self.news += not is_idle_talk(line)
            self._take(line, pid, time)
        self._follow(time)

    def ready(self, time: float) -> None:
        """Take in that it was asked and is ready."""
        self._service = Observation(READY, "")
        self._follow(time)

    @property
    def stage(self) -> str:
        """The stage it is in."""
        return self._course[-1][0]

    @property
    def detail(self) -> str:
        """What vLLM itself says of it."""
        return self._now.detail

    @property
    def percent(self) -> float | None:
        """How much of the stage is done, of the least advanced worker."""
        return self._now.percent

    @property
    def rate(self) -> str | None:
        """How fast, as the progress bar says."""
        return self._now.rate

    @property
    def seconds_left(self) -> float | None:
        """How long the stage still takes, as the progress bar says."""
        return self._now.seconds_left

    def seconds_in_stage(self, now: float) -> float:
        """Return how long it has been in its stage."""
        return max(0.0, now - self._course[-1][1])

    def stages(self, now: float) -> list[dict[str, Any]]:
        """Return what it went through: when each stage began after the launch, how long it took.

        A stage comes twice where a draft model's weights are loaded after the model's own.
        """
        ends = [at for _, at in self._course[1:]] + [now]
        return [
            {
                "name": name,
                "at": round(max(0.0, at - self.started), 3),
                "seconds": round(max(0.0, end - at), 3),
            }
            for (name, at), end in zip(self._course, ends)
        ]

    def durations(self, now: float) -> dict[str, float]:
        """Return how long each known stage took, for the history; "ready" is not one that ends."""
        total: dict[str, float] = {}
        for stage in self.stages(now):
            if stage["name"] not in (UNKNOWN, READY):
                total[stage["name"]] = round(total.get(stage["name"], 0.0) + stage["seconds"], 3)
        return total

    def says(self, now: float) -> str:
        """Say it to a person who waits, as in "loading weights 62 %, 40/64 shards, 12 min"."""
        kind = f" ({self.cache})" if self.stage == "compiling" and self.cache else ""
        percent = "" if self.percent is None else f" {self.percent:.0f} %"
        parts = [self.stage + kind + percent]
        if self.percent is not None:
            parts += [self.detail, self.rate or ""]
        parts.append(spell(now - self.started))
        return ", ".join(part for part in parts if part)

    def _begin(self, time: float) -> None:
        self.started = time
        self.cache: str | None = None
        self._heard = 0
        self._main: int | None = None
        self._names: dict[int, str] = {}
        self._broken: set[int | None] = set()
        self._service = Observation(LAUNCHED, "")
        self._engines: dict[int, _Engine] = {}
        self._now = self._service
        self._course = [(LAUNCHED, time)]

    def _begin_again(self, time: float) -> None:
        self.restarts += 1
        self._begin(time)

    def _take(self, line: Line, pid: int | None, time: float) -> None:
        worker = self._writer(line, pid)
        if line.text.startswith("Traceback (most recent call last)"):
            self._broken.add(worker)
        elif line.level == "INFO":
            self._broken.discard(worker)
        if worker in self._broken:
            return
        seen = observe_line(line)
        if seen is None:
            return
        if self._is_another_start(seen, line.pid or pid):
            self._begin_again(time)
        if seen.cache is not None and self.cache != "cold":
            self.cache = seen.cache
        if seen.stage == IMPORTED or order(seen.stage) >= order(STARTING_SERVER):
            if order(seen.stage) >= order(self._service.stage):
                self._service = seen
            return
        name = line.process or self._names.get(worker or 0, "")
        self._engines.setdefault(_engine(name), _Engine()).take(worker, seen)

    def _writer(self, line: Line, pid: int | None) -> int | None:
        """Return who wrote a line; None for a bar without a name, which one worker draws."""
        if line.pid is not None:
            self._names[line.pid] = line.process
            return line.pid
        return pid if pid in self._names else None

    def _is_another_start(self, seen: Observation, pid: int | None) -> bool:
        if seen.stage != IMPORTED or not seen.detail.startswith("vLLM "):
            return False
        before, self._main = self._main, pid
        if None not in (before, pid) and before != pid:
            return True
        return order(self._position().stage) > order(IMPORTED)

    def _position(self) -> Observation:
        if order(self._service.stage) >= order(STARTING_SERVER) or not self._engines:
            return self._service
        slowest = min((engine.position() for engine in self._engines.values()), key=_advance)
        return slowest if order(slowest.stage) > order(self._service.stage) else self._service

    def _follow(self, time: float) -> None:
        self._now = self._position()
        stage = self._now.stage
        if stage == LAUNCHED and self._heard > _LINES_BEFORE_THE_FIRST_KNOWN:
            stage = UNKNOWN
        if stage == self.stage:
            return
        if self.stage == LAUNCHED and order(stage) >= order(LOADING_WEIGHTS):
            self._course = [(UNKNOWN, self.started)]  # the first lines are missing
        self._course.append((stage, time))


class _Engine:
    """One engine: its furthest line, and its workers that have not loaded their weights yet."""

    def __init__(self) -> None:
        self._furthest: Observation | None = None
        self._loading: dict[int | None, Observation] = {}
        self._draft: set[int | None] = set()

    def take(self, worker: int | None, seen: Observation) -> None:
        place = order(seen.stage)
        reached = order(self._furthest.stage) if self._furthest else 0
        if seen.stage == LOADING_WEIGHTS:
            if reached <= order(WEIGHTS_LOADED):
                self._load(worker, seen)
            return
        if place >= order(WEIGHTS_LOADED):
            for known in (worker, None):
                self._loading.pop(known, None)
        if place >= order(KV_CACHE):
            self._loading.clear()
        if seen.stage == WARM_UP and reached < order(KV_CACHE):
            return  # some kernels are tuned already while memory is measured
        if place >= reached:
            self._furthest = seen

    def position(self) -> Observation:
        if self._loading:
            return min(self._loading.values(), key=_advance)
        return self._furthest or Observation(LAUNCHED, "")

    def _load(self, worker: int | None, seen: Observation) -> None:
        if seen.detail == "draft model":
            self._draft.add(worker)
        elif worker in self._draft or (worker is None and self._draft):
            seen = seen._replace(detail=f"draft model {seen.detail}")
        self._loading[worker] = seen


def spell(seconds: float) -> str:
    """Spell a time for a person."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _engine(process: str) -> int:
    """Return an engine's number; a process without one belongs to the only one."""
    match = _ENGINE.search(process)
    return int(match.group(1) or match.group(2)) if match else 0


def _advance(seen: Observation) -> tuple[int, bool, float]:
    return order(seen.stage), seen.percent is None, seen.percent or 0.0
