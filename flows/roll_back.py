"""The way back: the same switch the other way, with the same wait."""

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from blocks.errors import RedeployError
from tasks.redeployment import Redeployment
from tasks.restart import restart
from tasks.roll_back import switch_back
from tasks.stop import stop
from tasks.wait_healthy import Serving, wait_healthy


@flow(name="roll back", flow_run_name="roll back to {version}", persist_result=False)
def roll_back(
    version: str, gpu_baseline: dict[str, int], old_environment: str | None
) -> State[Serving]:
    """Bring the service back on the release it came from.

    Args:
        version: the version to come back to.
        gpu_baseline: what others hold of each GPU of this service, in bytes, by index.
        old_environment: where the old environment is kept; None: it was never taken out.

    Returns:
        A completed state's data is how it serves.
    """
    run = Redeployment.current()
    with run.in_phase("roll-back"):
        try:
            stop(run)
            if old_environment is not None:
                switch_back(run, old_environment)
            serving = wait_healthy(run, restart(run, gpu_baseline), version)
        except RedeployError as failure:
            return Failed(message=str(failure), data=failure)
    return Completed(message=f"Serving {version} again.", data=serving)
