"""The way back: the host exchanges the environments, and the service is asked as always."""

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from blocks.errors import RedeployError
from tasks.redeployment import Redeployment
from tasks.roll_back import go_back
from tasks.wait_healthy import Serving, answers_again


@flow(name="roll back", flow_run_name="roll back to {version}", persist_result=False)
def roll_back(version: str) -> State[Serving]:
    """Bring the service back on the release it came from.

    Args:
        version: the version to come back to.

    Returns:
        A completed state's data is how it serves.
    """
    run = Redeployment.current()
    try:
        serving = answers_again(run, go_back(run, version), version)
    except RedeployError as failure:
        return Failed(message=str(failure), data=failure)
    return Completed(message=f"Serving {version} again.", data=serving)
