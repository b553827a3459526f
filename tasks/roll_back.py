"""Put the old environment back in place."""

from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.switch import exchange, previous_path, rejected_path


@step("roll-back")
def switch_back(run: Redeployment) -> None:
    """Exchange the environments the other way; the new one is kept as rejected.

    Raises:
        StepFailed: the exchange failed.
    """
    exchange(run, "roll-back", previous_path(run), rejected_path(run))
    run.say(f"{run.service.environment} is the old release again")
