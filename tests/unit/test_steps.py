"""The table of steps is the one that is written down, and every step is in it."""

from pathlib import Path

import pytest

from tasks.steps import POLICIES, policies_page, step

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"


def test_the_written_table_is_current() -> None:
    assert PAGE.read_text() == policies_page()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_step_has_a_task(name: str) -> None:
    """A row without a task, or a task without a row, is a mistake."""
    sources = Path(__file__).parents[2].joinpath("tasks").glob("*.py")
    assert sum(f'@step("{name}")' in path.read_text() for path in sources) == 1


def test_a_step_without_a_row_is_refused() -> None:
    with pytest.raises(KeyError):
        step("no-such-step")
