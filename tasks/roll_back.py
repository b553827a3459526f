"""Have the host take the service back to the release it came from."""

from blocks.settings import Settings
from tasks.earlier_starts import earlier_starts
from tasks.redeployment import Redeployment
from tasks.shown import Shown
from tasks.steps import step
from tasks.wait_healthy import Serving

_MARGIN_SECONDS = 300


@step("roll-back")
def go_back(run: Redeployment, version: str) -> Serving:
    """Put the old environment back, start it and see it serve: one operation, whoever asks for it.

    Args:
        run: the redeploy.
        version: the version to come back to.

    Raises:
        StepFailed: the old environment is not there, or did not start.
    """
    service = run.service
    waits = (
        service.stop_timeout_seconds,
        service.gpu_wait_seconds,
        service.start_deadline_seconds,
        Settings().ready_patience_seconds,
        service.steady_seconds,
    )
    result = run.do(
        "roll-back",
        "revert",
        {"environment": service.environment},
        operation="revert",
        deadline_seconds=sum(waits) + _MARGIN_SECONDS,
        on_progress=Shown(run, earlier_starts(run, version)),
    )
    return Serving.model_validate(result)
