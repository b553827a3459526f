"""Build the new environment as a complete sibling of the old one."""

from pydantic import BaseModel

from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.steps import step


class Staged(BaseModel):
    """The sibling environment: its folder and what is installed in it."""

    sibling: str
    packages: dict[str, str]


def sibling_path(run: Redeployment) -> str:
    """Return where this redeploy builds the new environment."""
    return f"{run.service.environment}.{run.short_id}"


@step("reinstall")
def reinstall(run: Redeployment, plan: Plan) -> Staged:
    """Reinstall every locked package in a copy of the environment beside it.

    Raises:
        StepFailed: uv failed; the environment itself is untouched.
    """
    arguments = {
        "environment": run.service.environment,
        "release": run.short_id,
        "lock": plan.lock,
        "first_indexes": plan.first_indexes,
        "indexes": run.service.indexes,
        "find_links": [],
    }
    staged = Staged.model_validate(run.do("reinstall", "stage", arguments))
    run.log(f"{len(plan.locked)} packages reinstalled, {len(staged.packages)} in {staged.sibling}")
    return staged
