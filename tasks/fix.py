"""Carry out the remedy that a rule named, and look whether it helped."""

from collections.abc import Collection
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel

from blocks.service import Service
from tasks.diagnosis.finding import Finding
from tasks.diagnosis.rules import Remedy, still_wrong
from tasks.diagnosis.rules.acts import (
    Act,
    DropIn,
    EndLeftOvers,
    FetchKernels,
    GoBack,
    Install,
    SetAside,
    Uninstall,
)
from tasks.diagnosis.symptoms import Facts
from tasks.errors import StepFailed
from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.stop import stop_unit
from tasks.verify import prove


class Fixed(BaseModel):
    """What a remedy did: in words, and the versions that it moved, before and after."""

    done: list[str]
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}


@step("fix")
def fix(run: Redeployment, plan: Plan, remedy: Remedy) -> Fixed:
    """End the failing service, do what the remedy says, and check that it holds.

    Raises:
        StepFailed: an act failed, a file is not as its RECORD says, or the failure's reason is
            still there.
    """
    stop_unit(run, "fix")
    fixed = Fixed(done=[])
    for number, act in enumerate(remedy.acts, start=1):
        _carry_out(run, remedy.rule, act, "fix" if number == 1 else f"fix-{number}", fixed)
    run.log(f"{remedy.rule}: {_in_words(fixed)}")
    if fixed.after:
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
    means that it did not help. The way back is no remedy here: it is what follows without one.
    """
    remedy = finding.remedy
    if remedy is None or remedy.safety != "auto" or remedy.rule in tried:
        return None
    goes_back = any(isinstance(act, GoBack) for act in remedy.acts)
    return remedy if remedy.acts and not goes_back else None


def _carry_out(run: Redeployment, rule: str, act: Act, name: str, fixed: Fixed) -> None:
    """Have the host do one act, and write down what came of it."""
    if isinstance(act, Install):
        act = act.model_copy(update={"packages": _exact(run, act)})
    asked = operation_of(act, run.service, rule)
    if asked is not None:
        result = run.do("fix", *asked, operation=name)
        fixed.before |= result.get("before", {})
        fixed.after |= result.get("after", {})
    fixed.done += act.words


def operation_of(act: Act, service: Service, rule: str) -> tuple[str, dict[str, Any]] | None:
    """Return the supervisor's verb for an act and what it is given; None: the start does it.

    The unit and the environment are the service's own, whatever the log named.
    """
    environment = {"environment": service.environment}
    match act:
        case Install():
            sources = {"first_indexes": list(act.indexes), "indexes": service.indexes}
            return "install", {**environment, "packages": list(act.packages), **sources}
        case Uninstall():
            return "uninstall", {**environment, "packages": list(act.packages)}
        case FetchKernels():
            return "fetch-kernels", environment
        case DropIn():
            return "drop-in", {"unit": service.unit, "name": rule, "lines": list(act.lines)}
        case EndLeftOvers():
            return "end-left-overs", {"unit": service.unit}
        case SetAside():
            return "set-aside", {"path": act.path}
        case _:
            return None


def _exact(run: Redeployment, act: Install) -> tuple[str, ...]:
    """Have a requirement that leaves a choice resolved; what is exact already stays."""
    if all(_is_exact(one) for one in act.packages):
        return act.packages
    arguments = {
        "environment": run.service.environment,
        "requirements": list(act.packages),
        "first_indexes": list(act.indexes),
        "indexes": run.service.indexes,
    }
    found = run.do("fix", "resolve", arguments, operation="fix-resolve")["packages"]
    names = (str(canonicalize_name(Requirement(one).name)) for one in act.packages)
    return tuple(f"{name}=={found[name]}" for name in names)


def _is_exact(requirement: str) -> bool:
    asked = list(Requirement(requirement).specifier)
    return [one.operator for one in asked] == ["=="] and "*" not in asked[0].version


def _in_words(fixed: Fixed) -> str:
    moved = [
        f"{name} {fixed.before.get(name)} → {new or 'removed'}" for name, new in fixed.after.items()
    ]
    return ", ".join(moved or fixed.done)
