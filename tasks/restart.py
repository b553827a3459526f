"""Start the service again, after a remedy or on the way back."""

from tasks.redeployment import Redeployment
from tasks.start import Launched, launch
from tasks.steps import step


@step("restart")
def restart(run: Redeployment, gpu_baseline: dict[str, int]) -> Launched:
    """Start the unit again; what went before has stopped it.

    Raises:
        StepFailed: a GPU is still held, or systemd refused.
    """
    return launch(run, "restart", gpu_baseline)
