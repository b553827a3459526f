"""How a redeploy is triggered: by hand, and every night. `prefect.yaml` says the same."""

from collections.abc import Mapping
from typing import cast

from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron, Schedule

from blocks.service import Service
from flows.redeploy import redeploy
from flows.rollback import rollback

MANUAL = "manual"
NIGHTLY = "nightly"
BACK = "by-hand"
TAG = "vllm-redeploy"


def deployments(services: Mapping[str, Service]) -> list[RunnerDeployment]:
    """Return the deployments; a service has a night if it names one."""
    manual = redeploy.to_deployment(
        MANUAL,
        description="A redeploy that a person asks for.",
        tags=[TAG],
    )
    nightly = redeploy.to_deployment(
        NIGHTLY,
        description="The newest nightly, every night, for the services that name a time.",
        schedules=[_night(name, one.nightly) for name, one in services.items() if one.nightly],
        tags=[TAG, "nightly"],
        concurrency_limit=1,  # several services, one after another
    )
    back = rollback.to_deployment(
        BACK,
        description="Back to the release that was live before the present one.",
        tags=[TAG],
    )
    return [cast("RunnerDeployment", one) for one in (manual, nightly, back)]


def _night(name: str, cron: str) -> Schedule:
    request = {
        "service": name,
        "target": "nightly",
        "in_window": True,
        "requested_by": "the nightly schedule",
    }
    return Cron(cron, slug=name, parameters={"request": request})
