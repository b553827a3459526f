"""How long a start may take, a stage and in total.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tasks.startup.progress import spell
from tasks.startup.stages import (
    COMPILING,
    ENGINE_UP,
    GRAPHS,
    IMPORTED,
    KV_CACHE,
    LAUNCHED,
    LISTENING,
    LOADING_WEIGHTS,
    READY,
    STAGES,
    STARTING_ENGINE,
    STARTING_SERVER,
    WARM_UP,
    WEIGHTS_LOADED,
)

_MINUTE = 60.0


def _defaults() -> dict[str, float]:
    """Give limits that fit a model of 540 GB: 9 to 36 minutes of loading, then a cold compile.

    A service told to log warnings only says nothing while it loads: for "launched" as long as
    for the weights.
    """
    minutes = {
        LAUNCHED: 60,
        IMPORTED: 15,
        STARTING_ENGINE: 15,
        LOADING_WEIGHTS: 60,
        WEIGHTS_LOADED: 20,
        COMPILING: 45,
        KV_CACHE: 20,
        WARM_UP: 45,
        GRAPHS: 30,
        ENGINE_UP: 10,
        STARTING_SERVER: 10,
        LISTENING: 5,
    }
    return {stage: number * _MINUTE for stage, number in minutes.items()}


@dataclass(frozen=True)
class Limits:
    """The longest that each stage and all of them may take, in seconds.

    A stage without a limit ("loading", where the log's shape is unknown) has the total alone.
    """

    total: float = 120 * _MINUTE
    stages: Mapping[str, float] = field(default_factory=_defaults)

    def with_stages(self, stages: Mapping[str, float]) -> Limits:
        """Return the same limits with those of some stages set.

        Raises:
            ValueError: there is no such stage, or a limit is not above zero.
        """
        for stage, seconds in stages.items():
            if stage not in STAGES or stage == READY:
                known = ", ".join(STAGES[:-1])
                raise ValueError(f"{stage!r} is not a stage of a start; these are: {known}.")
            if not 0 < seconds < math.inf:
                raise ValueError(f"The limit of {stage!r} must be above zero, not {seconds}.")
        return replace(self, stages={**self.stages, **stages})

    def overdue(self, stage: str, seconds_in_stage: float, seconds_total: float) -> str | None:
        """Say in a sentence which limit is passed, or return None."""
        limit = self.stages.get(stage)
        if limit is not None and seconds_in_stage >= limit:
            return (
                f"It has been in stage {stage!r} for {spell(seconds_in_stage)}; "
                f"the limit of this stage is {spell(limit)}."
            )
        if stage != READY and seconds_total >= self.total:
            return (
                f"It is not ready after {spell(seconds_total)} (in stage {stage!r}); "
                f"the limit is {spell(self.total)}."
            )
        return None
