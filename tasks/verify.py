"""Prove that the new environment is what the lock says, before it is switched in."""

from pydantic import BaseModel, Field

from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.reinstall import Staged
from tasks.steps import POLICIES, step


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
    service = run.service
    arguments = {
        "environment": service.environment,
        "look_at": staged.sibling,
        "locked": plan.locked,
        "markers": service.markers,
        "imports": service.imports,
        "model": service.model,
        "forbidden_config_keys": service.forbidden_config_keys,
    }
    deadline = POLICIES["verify"].deadline_seconds
    found = Verified.model_validate(
        run.do("verify", "verify", arguments, deadline_seconds=deadline)
    )
    run.say(f"{found.files_checked} files of {found.packages} packages are as their RECORD says")
    return found
