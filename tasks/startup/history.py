"""What earlier starts say about this one: how long a stage takes, and when it will be ready.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Callable

from tasks.startup.stages import COMPILING, STAGES, order

_ENOUGH_PERCENT = 5.0


@dataclass(frozen=True)
class Start:
    """A start that became ready, or the one that is under way (then without seconds).

    Attributes:
        host: the machine it ran on.
        model: what was loaded.
        flags: the arguments that matter, see `flags_of`.
        version: vLLM's.
        seconds: how long each stage took, as `Progress.durations` gives it.
        cache: whether code was compiled "cold" or loaded "warm"; None where nothing is known.
    """

    host: str
    model: str
    flags: tuple[str, ...]
    version: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    cache: str | None = None


@dataclass(frozen=True)
class Estimate:
    """How long it still takes; `partial` where only the present stage is known about."""

    seconds: float
    partial: bool
    basis: str


@dataclass(frozen=True)
class History:
    """The comparable earlier starts, and in what they are alike ("" where there is none)."""

    starts: tuple[Start, ...]
    alike: str

    def expected(self, stage: str, cache: str | None = None) -> float | None:
        """Return how long a stage usually takes: the median. None: no start tells."""
        found = self._seconds(stage, cache)
        return statistics.median(found) if found else None

    def longest(self, stage: str) -> float | None:
        """Return the longest that a stage ever took. None: no start tells."""
        return max(self._seconds(stage, None), default=None)

    def eta(
        self,
        now_stage: str,
        seconds_in_stage: float,
        percent: float | None = None,
        cache: str | None = None,
    ) -> Estimate | None:
        """Estimate how long it still takes to be ready.

        With earlier starts: what is left of this stage (by its own pace once a progress bar has
        shown enough, else by what it usually takes) and what usually comes after it. Without any:
        what is left of the stage by its bar, labelled as partial. Else None: nothing is guessed.
        """
        paced = _by_pace(seconds_in_stage, percent)
        usual = self.expected(now_stage, cache if now_stage == COMPILING else None)
        rest = self._after(now_stage, cache)
        if rest is None or (usual is None and paced is None):
            if paced is None:
                return None
            return Estimate(paced, True, f"{now_stage} alone, by its own pace; no earlier start")
        left = paced if paced is not None else max(0.0, (usual or 0.0) - seconds_in_stage)
        basis = f"{_count(len(self.starts))} of the {self.alike}"
        if paced is None and usual is not None and seconds_in_stage > usual:
            basis += f"; {now_stage} takes longer than usual"
        return Estimate(left + rest, False, basis)

    def _seconds(self, stage: str, cache: str | None) -> list[float]:
        return [
            start.seconds[stage]
            for start in self.starts
            if stage in start.seconds and (cache is None or start.cache in (None, cache))
        ]

    def _after(self, stage: str, cache: str | None) -> float | None:
        if stage not in STAGES or not self.starts:
            return None
        alike = [start for start in self.starts if cache is None or start.cache == cache]
        return statistics.median(
            sum(took for name, took in start.seconds.items() if order(name) > order(stage))
            for start in alike or self.starts
        )


_ALIKE: tuple[tuple[str, Callable[[Start], object]], ...] = (
    (
        "same host, model, flags and version",
        lambda start: (start.host, start.model, start.flags, start.version),
    ),
    ("same host, model and flags", lambda start: (start.host, start.model, start.flags)),
    ("same host and model", lambda start: (start.host, start.model)),
    ("same model and flags", lambda start: (start.model, start.flags)),
    ("same model", lambda start: start.model),
)


def comparable(starts: Iterable[Start], present: Start, newest: int = 20) -> History:
    """Choose the earlier starts that are most like the present one.

    Args:
        starts: those that became ready, newest first.
        present: the one under way.
        newest: how many of them count at most.
    """
    known = list(starts)
    for alike, key in _ALIKE:
        found = [start for start in known if key(start) == key(present)]
        if found:
            return History(tuple(found[:newest]), alike)
    return History((), "")


_BESIDE_THE_POINT = frozenset(
    ("--host", "--port", "--uds", "--api-key", "--served-model-name", "--hf-token", "--root-path")
)


def flags_of(argv: Iterable[str]) -> tuple[str, ...]:
    """Return the flags of a command line in one form, sorted.

    `--max_model_len 4096` and `--max-model-len=4096` are one. What has no part in how long a start
    takes is left out, and so are the keys, which are nobody's business in a record.
    """
    flags: list[tuple[str, list[str]]] = []
    for argument in argv:
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            flags.append((name.replace("_", "-"), [value] if equals else []))
        elif argument.startswith("-") and argument[1:2].isalpha():
            flags.append((argument, []))
        elif flags:
            flags[-1][1].append(argument)
    return tuple(
        sorted(
            "=".join([name, " ".join(values)]) if values else name
            for name, values in flags
            if name not in _BESIDE_THE_POINT
        )
    )


def _by_pace(seconds: float, percent: float | None) -> float | None:
    if percent is None or percent < _ENOUGH_PERCENT:
        return None
    return seconds * (100.0 - percent) / percent


def _count(number: int) -> str:
    return "one earlier start" if number == 1 else f"{number} earlier starts"
