"""The matrix: when it strikes, what strikes, and by which strategy."""

import random
from dataclasses import dataclass
from itertools import product

PHASES = ("before-stop", "switch-open", "loading", "failed", "rolling-back")
FAULTS = (
    "flow-killed",
    "worker-killed",
    "link-cut",
    "power-cut",
    "reboot",
    "frozen",
    "disk-full",
    "index-gone",
    "corrupt-wheel",
)
BOTH = ("before-stop", "switch-open")
"""Phases in which the strategies differ."""


@dataclass(frozen=True)
class Cell:
    """One kind of trouble at one moment."""

    phase: str
    fault: str
    strategy: str = "staged"

    def __str__(self) -> str:
        return f"{self.phase}/{self.fault}/{self.strategy}"


def matrix() -> list[Cell]:
    """Return all cells."""
    staged = [Cell(phase, fault) for phase, fault in product(PHASES, FAULTS)]
    classic = [Cell(phase, fault, "classic") for phase, fault in product(BOTH, FAULTS)]
    return staged + classic


def sample(seed: int, number: int) -> list[Cell]:
    """Return some cells, the same ones for a seed."""
    return random.Random(seed).sample(matrix(), number)  # noqa: S311
