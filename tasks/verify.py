"""Prove that the new environment is what the lock says, before it is switched in."""

from collections.abc import Collection

from pydantic import BaseModel, Field

from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.reinstall import Staged
from tasks.steps import step


class Verified(BaseModel):
    """What was looked at and found right."""

    files_checked: int
    packages: int
    imports: dict[str, str | None] = Field(default_factory=dict)


@step("verify")
def verify(run: Redeployment, plan: Plan, staged: Staged) -> Verified:
    """Check RECORD hashes, debug markers, versions, imports and the model's config.

    Raises:
        StepFailed: something differs; the fields list it.
    """
    found = prove(run, "verify", plan, staged.sibling)
    run.log(f"{found.files_checked} files of {found.packages} packages are as their RECORD says")
    return found


def prove(
    run: Redeployment,
    step_name: str,
    plan: Plan,
    look_at: str,
    moved: Collection[str] = (),
) -> Verified:
    """Have an environment verified as an operation of some step.

    Args:
        run: the redeploy.
        step_name: the step it belongs to.
        plan: what the environment should hold.
        look_at: the environment's folder, or its sibling's.
        moved: packages that a remedy moved away from the plan.
    """
    service = run.service
    arguments = {
        "environment": service.environment,
        "look_at": look_at,
        "locked": {name: one for name, one in plan.locked.items() if name not in moved},
        "markers": service.markers,
        "imports": service.imports,
        "model": service.model,
        "forbidden_config_keys": service.forbidden_config_keys,
    }
    result = run.do(
        step_name,
        "verify",
        arguments,
        operation="verify" if step_name == "verify" else f"{step_name}-verify",
    )
    return Verified.model_validate(result)
