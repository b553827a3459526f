"""The table of steps is the one that is written down, and every step is in it."""

import re
from pathlib import Path
from typing import Any

import pytest

from blocks.service import Service
from blocks.supervisor_client import Outcome, Supervisor
from tasks.policies import NOTE_SECONDS, POLICIES, policies_page
from tasks.redeployment import Redeployment
from tasks.request import Request
from tasks.steps import step

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "steps.md"
SERVICE_SAYS = {name for name, one in POLICIES.items() if one.deadline_seconds is None}
RUN = "00000000-0000-0000-0000-000000000000"


def test_the_written_table_is_current() -> None:
    assert PAGE.read_text() == policies_page()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_step_has_a_task(name: str) -> None:
    """A row without a task, or a task without a row, is a mistake."""
    sources = ROOT.joinpath("tasks").glob("*.py")
    assert sum(f'@step("{name}"' in path.read_text() for path in sources) >= 1


def test_a_step_without_a_row_is_refused() -> None:
    with pytest.raises(KeyError):
        step("no-such-step")


class Asked(Supervisor):
    """Notes how long it would be waited for."""

    waits: list[float | None]

    def ensure(self, *_: Any, deadline_seconds: float | None = None, **__: Any) -> Outcome:
        self.waits.append(deadline_seconds)
        return Outcome("x", "facts", "succeeded", False, 0, 1, 1)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_operation_is_waited_for_as_the_table_says(name: str) -> None:
    service = Service.model_validate({"host": {"address": "h"}, "unit": "v", "environment": "/e"})
    run = Redeployment(RUN, Request(service="s"), service)
    asked = Asked(service.host)
    asked.waits, run.supervisor = [], asked
    run.do(name, "facts", {})
    run.do(name, "facts", {}, deadline_seconds=7)
    run.do(name, "remember", {})
    assert asked.waits == [POLICIES[name].deadline_seconds or NOTE_SECONDS, 7, NOTE_SECONDS]


def test_only_where_the_service_says_a_step_names_a_wait_of_its_own() -> None:
    sources = ROOT.joinpath("tasks").glob("*.py")
    own = {
        path.stem.replace("_", "-")
        for path in sources
        if re.search(r"^ +deadline_seconds=", path.read_text(), re.MULTILINE)
    }
    assert own - {"redeployment"} <= SERVICE_SAYS
