"""Every case, kept or built: the figures of `make diagnosis-report` are good, and get no worse."""

import json
from collections.abc import Sequence

import pytest

from tests.diagnosis_report import FIGURES, GOALS, Judged, all_judged, figures

UNNAMED = "vllm"


@pytest.fixture(scope="module")
def rows() -> Sequence[Judged]:
    return all_judged()


def test_there_are_as_many_cases_as_were_collected(rows: Sequence[Judged]) -> None:
    assert len({one.journal.case for one in rows}) >= 73


@pytest.mark.parametrize("figure", GOALS)
def test_the_goals_are_met(rows: Sequence[Judged], figure: str) -> None:
    assert figures(rows)[figure] >= GOALS[figure]


def test_no_figure_is_lower_than_it_was(rows: Sequence[Judged]) -> None:
    kept, now = json.loads(FIGURES.read_text()), figures(rows)

    assert {
        name: now[name] for name in kept if now[name] < kept[name] and name != "too_daring"
    } == {}


def test_no_remedy_is_more_daring_than_its_case(rows: Sequence[Judged]) -> None:
    assert [one.journal.name for one in rows if one.too_daring] == []


def test_nothing_is_found_where_it_served(rows: Sequence[Judged]) -> None:
    healthy = [one for one in rows if one.journal.expected["kind"] is None]

    assert len(healthy) >= 3
    assert [one.journal.name for one in healthy if not one.finding.healthy] == []


def test_the_process_is_right_where_it_is_named(rows: Sequence[Judged]) -> None:
    wrong = [
        (one.journal.name, one.finding.root_cause.process)
        for one in rows
        if one.finding.root_cause
        and one.journal.build == "kept"
        and one.finding.root_cause.process not in (UNNAMED, one.journal.expected["process"])
    ]

    assert wrong == [("orphan-enginecore-holds-gpu:kept", "systemd")]
