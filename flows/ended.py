"""A run that is asked for again after its end is recorded: it says how it ended."""

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from tasks.record import already_ended
from tasks.redeployment import Redeployment
from tasks.undrain import put_back


def ended_before(run: Redeployment) -> State[None] | None:
    """Return how this run ended when it was first run, or None; what is still drained is put back.

    Args:
        run: the redeploy, or the rollback by hand.
    """
    ended = already_ended(run)
    if ended is None:
        return None
    drained = put_back(run, serving=ended.result != "down")
    message = f"This redeploy ended at {ended.time}: {ended.verdict} {drained}".strip()
    good = ended.result == "live" and not drained
    return Completed(message=message) if good else Failed(message=message)
