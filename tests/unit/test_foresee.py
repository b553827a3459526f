"""What a plan says that it will cost."""

import pytest

from blocks.service import Service
from tasks.foresee import between_stop_and_start, down_time
from tasks.release import AttemptRecord
from tasks.request import Strategy
from tests.unit.records import record

ONE = [AttemptRecord(number=1, outcome="healthy")]
TWO = [AttemptRecord(number=1, outcome="failed"), AttemptRecord(number=2, outcome="healthy")]
LIVE = {"result": "live", "strategy": "staged", "attempts": ONE}


def service(**host: object) -> Service:
    told = {"host": {"address": "h", **host}, "unit": "vllm.service", "environment": "/opt/e"}
    return Service.model_validate(told)


def test_it_is_down_as_long_as_before_in_the_middle() -> None:
    seen = [record(**LIVE, stopped_seconds=one) for one in (400.0, 2000.0, 420.0)]
    others = [
        record(**LIVE),
        record(**{**LIVE, "attempts": TWO}, stopped_seconds=9.0),
        record(**{**LIVE, "strategy": "classic"}, stopped_seconds=9.0),
        record(**{**LIVE, "result": "rolled back"}, stopped_seconds=9.0),
    ]
    assert down_time([*others, *seen], Strategy.STAGED) == 420.0
    assert down_time(others[:1], Strategy.STAGED) is None


@pytest.mark.parametrize("strategy", Strategy)
def test_only_the_classic_way_installs_while_it_is_down(strategy: Strategy) -> None:
    found = between_stop_and_start(service(), strategy, "exchange")
    assert any("uv pip install" in one for one in found) is (strategy is Strategy.CLASSIC)
    assert found[0].startswith("systemctl stop")
    assert found[-1].startswith("systemctl start")


def test_a_users_unit_is_spoken_to_by_the_users_systemd() -> None:
    found = between_stop_and_start(service(user="a", user_units=True), Strategy.STAGED, "two-step")
    assert [one.startswith("systemctl --user ") for one in found] == [True, False, True, True]
