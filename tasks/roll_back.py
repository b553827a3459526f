"""Put the old environment back in place."""

from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.switch import exchange, rejected_path


@step("roll-back")
def switch_back(run: Redeployment, old_environment: str) -> None:
    """Exchange the environments the other way; the new one is kept as rejected.

    Args:
        run: the redeploy.
        old_environment: where the old environment is kept.

    Raises:
        StepFailed: the exchange failed.
    """
    exchange(run, "roll-back", old_environment, rejected_path(run))
    run.log(f"{run.service.environment} is the old release again")
