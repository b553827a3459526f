"""When a run goes on by itself: it died a while ago, nobody has ended it, and not too often."""

from datetime import UTC, datetime, timedelta

import pytest
from prefect.client.schemas.objects import State, StateType

from deployments.by_itself import GOES_ON, SETTLED_SECONDS, next_state

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST = 3
FIRST = ("SCHEDULED", "PENDING", "RUNNING", "CRASHED")
AGAIN = (GOES_ON, "PENDING", "RUNNING", "CRASHED")


def what_next(*words: str, seconds: float = SETTLED_SECONDS, most: int = MOST) -> State | None:
    states = [
        State(
            type=StateType.SCHEDULED if word == GOES_ON else StateType(word),
            message=f"{GOES_ON}, 1 of 3." if word == GOES_ON else None,
            timestamp=NOW - timedelta(seconds=seconds),
        )
        for word in words
    ]
    return next_state(states, NOW, most)


def test_one_that_died_goes_on_when_nobody_reports_it_any_more() -> None:
    assert what_next(*FIRST, seconds=SETTLED_SECONDS - 1) is None
    state = what_next(*FIRST)
    assert state is not None
    assert (state.type, state.name) == (StateType.SCHEDULED, "AwaitingRetry")
    assert str(state.message).startswith(f"{GOES_ON}, 1 of 3")


@pytest.mark.parametrize("end", ["CANCELLED", "FAILED", "COMPLETED", "RUNNING", "PENDING"])
def test_no_other_end_is_gone_on_with(end: str) -> None:
    assert what_next(*FIRST[:-1], end) is None


def test_one_that_a_person_was_about_to_end_does_not_go_on() -> None:
    assert what_next(*FIRST[:-1], "CANCELLING", "CRASHED") is None
    retried = (*FIRST[:-1], "CANCELLED", *FIRST)
    assert what_next(*retried) is not None


def test_it_goes_on_three_times_and_fails_then() -> None:
    state = what_next(*FIRST, *AGAIN, *AGAIN)
    assert state is not None
    assert str(state.message).startswith(f"{GOES_ON}, 3 of 3")
    state = what_next(*FIRST, *AGAIN, *AGAIN, *AGAIN)
    assert state is not None
    assert state.is_failed()
    assert "3 times" in str(state.message)
    by_hand = what_next(*FIRST, *FIRST, *FIRST, *FIRST)
    assert by_hand is not None
    assert by_hand.is_scheduled()


def test_where_none_is_to_go_on_a_crash_stays_one() -> None:
    assert what_next(*FIRST, most=0) is None
