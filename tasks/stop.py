"""Stop the service."""

from tasks.redeployment import Redeployment
from tasks.steps import step

_MARGIN_SECONDS = 60


@step("stop")
def stop(run: Redeployment) -> None:
    """Stop the unit and wait until systemd says that it has ended.

    Raises:
        StepFailed: it did not end in `stop_timeout_seconds`.
    """
    stop_unit(run, "stop")


def stop_unit(run: Redeployment, step_name: str, operation: str = "stop") -> None:
    """Have the unit stopped as an operation of some step."""
    timeout = run.service.stop_timeout_seconds
    run.do(
        step_name,
        "stop",
        {"unit": run.service.unit, "timeout_seconds": timeout},
        operation=operation,
        deadline_seconds=timeout + _MARGIN_SECONDS,
    )
