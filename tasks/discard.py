"""Give a redeploy up before the stop: take away what was staged and will not be switched in."""

import logging

from blocks.errors import RedeployError
from tasks.errors import StepFailed
from tasks.redeployment import Redeployment
from tasks.reinstall import sibling_path


def given_up(run: Redeployment) -> bool:
    """Have the host begin nothing more of this redeploy and remove what it has staged.

    Where that fails, it is said, and what was staged is left.

    Returns:
        False if the service was stopped: then there is a way to go back.
    """
    if run.has_stopped():
        return False
    sibling = sibling_path(run)
    try:
        asked = {"environment": run.service.environment, "sibling": sibling}
        run.do("reinstall", "discard", asked, operation="discard")
    except RedeployError as error:
        if isinstance(error, StepFailed) and error.kind == "has-stopped":
            return False  # by an operation that was asked for before, and came through late
        run.log(f"{sibling} may be left on the host: {error}", logging.WARNING)
    return True
