"""A small part of `make chaos`, the same each time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.arena import Arena, arena
from tests.chaos.cells import Cell, sample

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

SEED = 20


@pytest.fixture(scope="module")
def place(workshop: Path) -> Iterator[Arena]:
    with arena(8, workshop) as made:
        yield made


@pytest.mark.parametrize("cell", sample(SEED, 2), ids=str)
def test_whatever_happens_it_ends_on_one_release(place: Arena, cell: Cell) -> None:
    assert place.play(cell) == []
