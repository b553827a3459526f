"""Prove that the running release serves as configured, before it is stopped.

A wrong port or model name would make the new release look broken, and the way back as well.
"""

from typing import Any

from tasks import metrics
from tasks.errors import PlanRefused, StepFailed
from tasks.facts import Facts
from tasks.planned import Plan
from tasks.policies import seconds_for
from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.wait_healthy import LOOPBACK, ask, standing


@step("prove-old")
def prove_old(run: Redeployment, before: Facts, plan: Plan) -> str:
    """Ask the running service what the new one will be asked, and keep its metrics' names.

    Returns:
        The host's own address that it listens on; the loopback where it does not run.

    Raises:
        PlanRefused: it runs, but does not answer so, and nobody said to go on all the same.
    """
    if before.unit.active_state != "active" or run.request.even_if_broken or run.finished("stop"):
        return LOOPBACK
    stands = standing(run, before.unit.invocation_id)
    if stands["others"]:
        raise PlanRefused(
            f"Another process listens in place of {run.service.unit}: {_named(stands['others'])}. "
            "It would answer for the new release as well. The service was not stopped.",
            hint="See what it is and end it.",
        )
    address = stands["address"] or LOOPBACK
    try:
        ask(run, "prove-old", plan.before, patience=seconds_for("prove-old"), address=address)
    except StepFailed as problem:
        raise PlanRefused(
            f"{problem.message} It runs, and was not stopped.",
            hint="Correct port, served_model or api_key. If it is broken and shall be replaced all "
            "the same: --even-if-broken.",
        ) from problem
    with run.reached(address) as base_url:
        found = metrics.read(base_url)
    if found is not None:
        metrics.remember_names(run, found.names())
    return address


def _named(holders: list[dict[str, Any]]) -> str:
    return ", ".join(f"{one['pid']} ({one['command']}) on {one['address']}" for one in holders)
