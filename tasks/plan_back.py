"""The plan of a rollback by hand: which release lies beside the live one. Changes nothing."""

from tasks import report
from tasks.artifacts import publish
from tasks.errors import PlanRefused
from tasks.facts import Facts
from tasks.packages.diff import diff
from tasks.packages.versions import commit_delta
from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.steps import step

_PREVIOUS = "previous"


@step("plan")
def plan_back(run: Redeployment, before: Facts) -> Plan:
    """Return the plan to go back to the release that was live before this one.

    The first plan of a rollback is recorded on the host; a resumed run gets that one back.

    Raises:
        PlanRefused: no release lies beside the live one.
    """
    drawn_up = {} if run.finished("plan") else _draw_up(run, before).model_dump(mode="json")
    plan = Plan.model_validate(run.do("plan", "remember", {"document": drawn_up})["document"])
    publish(run, "plan", report.plan_page(plan), f"{plan.before} → {plan.after}")
    run.log(f"back to {plan.after}, which lies at {plan.back_to}")
    return plan


def _draw_up(run: Redeployment, before: Facts) -> Plan:
    service = run.service
    state = run.supervisor.call("status", {"environment": service.environment})
    kept = [one for one in state["folders"] if one["state"] == _PREVIOUS]
    if not kept:
        raise PlanRefused(
            f"No release lies beside {service.environment} that could be gone back to.",
            hint="Redeploy the version that you want.",
        )
    path = max(kept, key=lambda one: float(one["since"]))["path"]
    asked = {**service.location(), "environment": path}
    there = Facts.model_validate(run.supervisor.call("facts", asked)).environment.versions()
    installed = before.environment.versions()
    name = service.distribution
    return Plan(
        before=installed[name],
        after=there[name],
        wheel=None,
        lock="",
        locked={},
        changes=diff(installed, there, ()),
        delta=commit_delta(installed[name], there[name]),
        skews=[],
        back_to=path,
    )
