"""The host tells the attempts of a redeploy by its operations, as the flow writes them down."""

from typing import Any

import pytest

from blocks.supervisor.attempts import attempts
from tasks.release import AttemptRecord

CRASHED = "v.service crashed while loading weights."
NOT_SEEN = "It was not seen to serve as it should."


def done(*given: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [{"operation": f"r/{name}", "verb": verb, "state": state} for name, verb, state in given]


OPENED = ("open", "open", "succeeded")
STARTED = ("attempt-1/start", "swap", "succeeded")
FAILED = ("attempt-1/wait-healthy", "watch", "failed")
AGAIN = ("attempt-2/restart", "start", "succeeded")
LISTENED = ("attempt-2/wait-healthy", "watch", "succeeded")
WENT_ON = ("attempt-2/hold", "hold", "succeeded")


@pytest.mark.parametrize(
    ("operations", "serves", "told"),
    [
        ((OPENED,), False, []),
        ((OPENED, STARTED), False, [(1, "failed", "start", NOT_SEEN)]),
        ((OPENED, STARTED, FAILED), False, [(1, "failed", "wait-healthy", CRASHED)]),
        (
            (OPENED, STARTED, FAILED, AGAIN, LISTENED, WENT_ON),
            True,
            [(1, "failed", "wait-healthy", CRASHED), (2, "healthy", None, None)],
        ),
        (
            (OPENED, STARTED, FAILED, AGAIN, LISTENED),
            False,
            [
                (1, "failed", "wait-healthy", CRASHED),
                (2, "failed", "wait-healthy", NOT_SEEN),
            ],
        ),
        (
            (OPENED, STARTED, ("attempt-1/hold", "hold", "failed")),
            False,
            [(1, "failed", "hold", CRASHED)],
        ),
    ],
)
def test_each_start_of_the_new_release_is_one(
    operations: tuple[tuple[str, str, str], ...], serves: bool, told: list[tuple[object, ...]]
) -> None:
    errors = {f"r/{name}": CRASHED for name, _, state in operations if state == "failed"}
    found = attempts(done(*operations), lambda name: errors.get(name, ""), serves=serves)
    records = [AttemptRecord.model_validate(one) for one in found]
    assert [(one.number, one.outcome, one.failed_step, one.failure) for one in records] == told
