"""Prove that the running release serves as configured, before it is stopped.

A wrong port or model name would make the new release look broken, and the way back as well.
"""

from tasks.errors import PlanRefused
from tasks.facts import Facts
from tasks.planned import Plan
from tasks.readiness import NotReady
from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.wait_healthy import ask

_PATIENCE_SECONDS = 10.0


@step("prove-old")
def prove_old(run: Redeployment, before: Facts, plan: Plan) -> None:
    """Ask the running service what the new one will be asked.

    Raises:
        PlanRefused: it runs, but does not answer so, and nobody said to go on all the same.
    """
    if before.unit.active_state != "active" or run.request.even_if_broken or run.finished("stop"):
        return
    try:
        ask(run, plan.before, patience=_PATIENCE_SECONDS)
    except NotReady as problem:
        raise PlanRefused(
            f"{run.service.unit} runs, but does not serve as configured: {problem}.",
            hint="Correct port, served_model or api_key; or, if it is broken and shall be replaced, "
            "ask for it even if broken. Nothing was changed on the host.",
        ) from problem
