"""Carry out the remedy that a rule named, and look whether it helped."""

from collections.abc import Collection

from pydantic import BaseModel

from tasks.diagnosis.finding import Finding
from tasks.diagnosis.rules import Remedy, still_wrong
from tasks.diagnosis.symptoms import Facts
from tasks.errors import StepFailed
from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.stop import stop_unit
from tasks.verify import prove


class Fixed(BaseModel):
    """The versions that a remedy moved, before and after."""

    before: dict[str, str | None]
    after: dict[str, str | None]


@step("fix")
def fix(run: Redeployment, plan: Plan, remedy: Remedy) -> Fixed:
    """End the failing service, install what the remedy says, and check that it holds.

    Raises:
        StepFailed: uv failed, a file is not as its RECORD says, or the failure's reason is
            still there.
    """
    stop_unit(run, "fix")
    fixed = _install(run, remedy)
    moved = ", ".join(
        f"{name} {fixed.before.get(name)} → {new}" for name, new in fixed.after.items()
    )
    run.log(f"{remedy.rule}: {moved}")
    prove(run, "fix", plan, run.service.environment, moved=fixed.after)
    facts = Facts.from_supervisor(
        run.do("fix", "facts", run.service.location(), operation="fix-facts")
    )
    wrong = still_wrong(remedy, facts)
    if wrong:
        raise StepFailed("fix", "not-cured", f"The remedy did not help: {wrong}")
    return fixed


def remedy_for(finding: Finding, tried: Collection[str]) -> Remedy | None:
    """Return the remedy that policy allows now, or None.

    Only a rule's own remedy, only a safe one, and each once: the same evidence after a remedy
    means that it did not help.
    """
    remedy = finding.remedy
    if remedy is None or remedy.safety != "auto" or remedy.rule in tried:
        return None
    return remedy if remedy.packages else None  # what else may run by itself is not done yet


def _install(run: Redeployment, remedy: Remedy) -> Fixed:
    arguments = {
        "environment": run.service.environment,
        "packages": list(remedy.packages),
        "indexes": [*run.service.indexes, *remedy.indexes],
        "find_links": [],
    }
    return Fixed.model_validate(run.do("fix", "install", arguments))
