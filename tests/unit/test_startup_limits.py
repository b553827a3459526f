"""How long a start may take."""

import pytest

from tasks.startup.limits import Limits
from tasks.startup.stages import READY, STAGES


def test_a_model_of_540_gb_has_time() -> None:
    limits = Limits()

    assert limits.overdue("loading weights", 36 * 60, 40 * 60) is None
    assert limits.overdue("compiling", 20 * 60, 60 * 60) is None
    assert limits.overdue("launched", 36 * 60, 36 * 60) is None
    assert set(limits.stages) == set(STAGES) - {READY}


def test_a_stage_that_takes_too_long() -> None:
    assert Limits().overdue("graphs", 1800, 2000) == (
        "It has been in stage 'graphs' for 30 min; the limit of this stage is 30 min."
    )


def test_all_of_it_takes_too_long() -> None:
    assert Limits(total=600).overdue("compiling", 10, 600) == (
        "It is not ready after 10 min (in stage 'compiling'); the limit is 10 min."
    )
    assert Limits(total=600).overdue("compiling", 10, 599) is None


def test_an_unknown_stage_has_the_total_alone() -> None:
    assert Limits().overdue("loading", 7000, 7000) is None
    assert Limits().overdue("loading", 7200, 7200) is not None


def test_ready_is_never_overdue() -> None:
    assert Limits().overdue("ready", 99_999, 99_999) is None


def test_limits_are_set_by_stage() -> None:
    limits = Limits().with_stages({"loading weights": 5})

    assert limits.overdue("loading weights", 5, 6) is not None
    assert limits.overdue("graphs", 5, 6) is None
    assert limits.overdue("graphs", 1800, 1800) is not None
    assert Limits().overdue("loading weights", 5, 6) is None


@pytest.mark.parametrize("stages", [{"loading": 5}, {"ready": 5}, {"graphs": 0}, {"graphs": -1}])
def test_a_wrong_limit_is_refused(stages: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"stage|zero"):
        Limits().with_stages(stages)
