"""Take away the environment that was staged and will not be switched in."""

import logging

from blocks.errors import RedeployError
from tasks.redeployment import Redeployment
from tasks.reinstall import sibling_path


def discard_if_possible(run: Redeployment) -> None:
    """Remove what this redeploy has staged; where that fails, say so and leave it."""
    sibling = sibling_path(run)
    try:
        if any(one["verb"] == "stage" for one in run.recorded()):
            asked = {"environment": run.service.environment, "sibling": sibling}
            run.do("reinstall", "discard", asked, operation="discard")
    except RedeployError as error:
        run.log(f"{sibling} was left on the host: {error}", logging.WARNING)
