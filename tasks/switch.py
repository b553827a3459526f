"""Exchange the environment with its sibling at the old path."""

from tasks.redeployment import Redeployment
from tasks.reinstall import Staged
from tasks.steps import step


@step("switch")
def switch(run: Redeployment, staged: Staged) -> str:
    """Put the staged environment in place and return where the old one is kept.

    Raises:
        StepFailed: the exchange failed; the old environment is in place.
    """
    kept = previous_path(run)
    run.do(
        "switch",
        "switch",
        {
            "environment": run.service.environment,
            "sibling": staged.sibling,
            "previous": kept,
            "unit": run.service.unit,
        },
    )
    run.log(f"{run.service.environment} is the new release; the old one is kept at {kept}")
    return kept


def previous_path(run: Redeployment) -> str:
    """Return where this redeploy keeps the environment it replaced."""
    return f"{run.service.environment}.previous-{run.short_id}"


def rejected_path(run: Redeployment) -> str:
    """Return where this redeploy keeps a new environment that it took out again."""
    return f"{run.service.environment}.rejected-{run.short_id}"
