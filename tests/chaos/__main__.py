"""Every trouble at every moment, on real hosts; prints the matrix of what came of it.

    python -m tests.chaos [--hosts N] [--seed SEED] [--extra K] [CELL ...]

Cells are PHASE/FAULT/STRATEGY; without any, all of them are played, and then some at random.
"""

import queue
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from tests.chaos.arena import arena
from tests.chaos.cells import FAULTS, PHASES, Cell, matrix, sample

LONGEST_SECONDS = 45 * 60
app = App(name="chaos")
console = Console(width=132, soft_wrap=True)


@app.default
def main(
    *names: str,
    hosts: Annotated[int, Parameter(help="How many hosts at a time.")] = 3,
    seed: Annotated[int, Parameter(help="Of the random part.")] = 1,
    extra: Annotated[int, Parameter(help="How many cells at random at the end.")] = 9,
) -> int:
    """Play the cells and return 1 unless every one of them ended well."""
    wanted = [Cell(*name.split("/")) for name in names] or matrix() + sample(seed, extra)
    left: queue.SimpleQueue[tuple[int, Cell]] = queue.SimpleQueue()
    for numbered in enumerate(wanted):
        left.put(numbered)
    ends: dict[int, list[str]] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        players = [
            threading.Thread(target=_play, args=(number, Path(folder), left, ends, began))
            for number in range(1, hosts + 1)
        ]
        for player in players:
            player.start()
        for player in players:
            player.join()
    console.print(_table(wanted, ends))
    console.print(f"seed {seed}; {len(ends)} of {len(wanted)} cells in {_spent(began)}")
    return int(any(ends.get(number, ["skipped"]) for number in range(len(wanted))))


def _play(
    number: int,
    folder: Path,
    left: "queue.SimpleQueue[tuple[int, Cell]]",
    ends: dict[int, list[str]],
    began: float,
) -> None:
    with arena(number, folder) as here:
        while time.monotonic() - began < LONGEST_SECONDS:
            try:
                place, cell = left.get_nowait()
            except queue.Empty:
                return
            since = time.monotonic()
            try:
                ends[place] = here.play(cell)
            except Exception as error:
                ends[place] = [f"{type(error).__name__}: {error}"[:500]]
            said = "; ".join(ends[place]) or "well"
            console.print(f"{cell}: {said} ({_spent(since)})", markup=False, highlight=False)


def _table(wanted: list[Cell], ends: dict[int, list[str]]) -> Table:
    table = Table("", *FAULTS)
    for strategy in ("staged", "classic"):
        for phase in PHASES:
            row = [_word(Cell(phase, fault, strategy), wanted, ends) for fault in FAULTS]
            if any(row):
                table.add_row(f"{phase}, {strategy}", *row)
    return table


def _word(cell: Cell, wanted: list[Cell], ends: dict[int, list[str]]) -> str:
    places = [place for place, one in enumerate(wanted) if one == cell]
    if not places:
        return ""
    if any(place not in ends for place in places):
        return "SKIPPED"
    return "FAILED" if any(ends[place] for place in places) else "well"


def _spent(since: float) -> str:
    return f"{time.monotonic() - since:.0f} s"


if __name__ == "__main__":
    sys.exit(app())
