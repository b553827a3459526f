"""Carry out the remedy that a rule named."""

from pydantic import BaseModel

from tasks.diagnosis.finding import Finding, Remedy
from tasks.redeployment import Redeployment
from tasks.steps import POLICIES, step
from tasks.stop import stop_unit


class Fixed(BaseModel):
    """The versions that a remedy moved, before and after."""

    before: dict[str, str | None]
    after: dict[str, str | None]


@step("fix")
def fix(run: Redeployment, remedy: Remedy) -> Fixed:
    """End the failing service and install what the remedy says.

    Raises:
        StepFailed: uv failed.
    """
    stop_unit(run, "fix")
    arguments = {
        "environment": run.service.environment,
        "packages": list(remedy.packages),
        "indexes": run.service.indexes,
        "find_links": [],
    }
    deadline = POLICIES["fix"].deadline_seconds
    fixed = Fixed.model_validate(run.do("fix", "install", arguments, deadline_seconds=deadline))
    run.say(
        ", ".join(f"{name} {fixed.before.get(name)} → {new}" for name, new in fixed.after.items())
    )
    return fixed


def remedy_for(finding: Finding, tried: list[str]) -> Remedy | None:
    """Return the remedy that policy allows now, or None.

    Only a rule's own remedy, only a safe one, and each once: the same evidence after a remedy
    means that it did not help.
    """
    remedy = finding.remedy
    if finding.rule is None or remedy is None or remedy.safety != "auto" or finding.rule in tried:
        return None
    return remedy
