"""Where the time went."""

from tasks.redeployment import StepTime
from tasks.timing import Operation, down_time, steps_of, whole_time

LOG = [
    ("r/snapshot", "facts", 0, 1, "succeeded"),
    ("r/resolve", "resolve", 1, 3, "succeeded"),
    ("r/plan", "remember", 3, 3, "succeeded"),
    ("r/stop", "stop", 4, 6, "succeeded"),
    ("r/attempt-1/start", "start", 10, 11, "succeeded"),
    ("r/attempt-1/wait-healthy", "watch", 11, 15, "failed"),
    ("r/attempt-1/stop", "stop", 16, 17, "succeeded"),
    ("r/attempt-1/fix", "install", 17, 20, "succeeded"),
    ("r/attempt-2/start", "start", 20, 21, "succeeded"),
    ("r/attempt-2/wait-healthy", "watch", 21, 30, "succeeded"),
    ("r/open", "open", 3, 4, "succeeded"),
    ("r/revert", "revert", 31, 36, "succeeded"),
]
OPERATIONS = [
    Operation(
        operation=name, verb=verb, state=state, started=start, finished=end, seconds=end - start
    )
    for name, verb, start, end, state in LOG
]


def test_operations_are_put_under_their_steps() -> None:
    rows = {(row.phase, row.step): row for row in steps_of("r", OPERATIONS, [])}
    assert rows["", "plan"].host_seconds == 2
    assert rows["attempt-1", "fix"].host_seconds == 4
    assert rows["attempt-1", "wait-healthy"].outcome == "failed"
    assert ("attempt-2", "restart") in rows
    assert rows["", "roll-back"].host_seconds == 5
    assert rows["", "guard"].host_seconds == 1
    assert ("attempt-1", "start") in rows


def seen(phase: str, step: str, seconds: float, *, ok: bool) -> StepTime:
    return StepTime(phase=phase, step=step, seconds=seconds, ok=ok)


def test_what_became_of_a_step_says_the_flow_where_it_went_through_it() -> None:
    times = [
        seen("attempt-2", "wait-healthy", 9, ok=False),  # it served, and answered garbage
        seen("", "roll-back", 9, ok=True),
    ]
    rows = {(row.phase, row.step): row.outcome for row in steps_of("r", OPERATIONS, times)}
    assert rows["attempt-1", "wait-healthy"] == "failed"
    assert rows["attempt-2", "wait-healthy"] == "failed"
    assert rows["", "roll-back"] == "ok"


def test_notes_of_draining_and_of_the_old_release_are_no_rows_of_their_own() -> None:
    names = ("old", "draining", "drained", "undrained", "draining-2", "drained-2")
    notes = [
        Operation(
            operation=f"r/{name}", verb="remember", state="succeeded", started=at, finished=at
        )
        for at, name in enumerate(names)
    ]
    assert [row.step for row in steps_of("r", notes, [])] == ["prove-old", "drain", "undrain"]


def test_a_replayed_step_has_no_time_of_the_flow() -> None:
    times = [
        StepTime(phase="", step="snapshot", seconds=1.5, ok=True),
        StepTime(phase="", step="stop", seconds=0.2, ok=True),
    ]
    rows = {row.step: row for row in steps_of("r", OPERATIONS, times) if not row.phase}
    assert rows["snapshot"].seconds == 1.5
    assert rows["stop"].seconds is None


def test_down_is_from_the_first_stop_to_the_start_that_served() -> None:
    assert down_time(OPERATIONS) == 32
    assert down_time(OPERATIONS[:6]) is None


def test_an_operation_without_an_end_takes_no_time_and_is_called_unfinished() -> None:
    cut_off = {"state": "interrupted", "started": 40, "finished": None, "seconds": None}
    more = Operation.model_validate({"operation": "r/verify", "verb": "verify", **cut_off})
    operations = [*OPERATIONS[:6], more]
    row = steps_of("r", operations, [])[-1]
    assert (row.step, row.outcome, row.host_seconds) == ("verify", "unfinished", 0)
    assert steps_of("r", operations, [seen("", "verify", 2, ok=False)])[-1].seconds == 2
    assert whole_time(operations) == whole_time(OPERATIONS[:6]) == 15
    assert down_time(operations) is None
    assert whole_time([more]) == 0
