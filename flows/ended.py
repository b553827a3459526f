"""A run that is asked for again after its end is recorded: it says how it ended."""

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from tasks.record import already_ended, no_longer_drained
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
    verdict = ended.verdict if drained else no_longer_drained(run, ended)
    message = f"This redeploy ended at {ended.time}: {verdict} {drained}".strip()
    good = ended.result == "live" and not drained
    return Completed(message=message) if good else Failed(message=message)
