"""Prove that the running release serves as configured, before it is stopped.

A wrong port or model name would make the new release look broken, and the way back as well.
"""

from pydantic import BaseModel

from blocks.types import Kind
from tasks import metrics
from tasks.errors import PlanRefused, StepFailed
from tasks.facts import Facts
from tasks.planned import Plan
from tasks.policies import seconds_for
from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.wait_healthy import LOOPBACK, ask, in_words, standing

_REMEMBERED = "old"
_NO_DRIVER = "no NVIDIA driver"
_KNOWINGLY = "If the old release shall be replaced all the same: --even-if-broken."


class Old(BaseModel):
    """What the running release was found to be.

    Attributes:
        address: the host's own address that it listens on; the loopback where it does not run.
        kind: what it answers.
        metrics: the names of its metrics.
    """

    address: str = LOOPBACK
    kind: Kind = Kind.AUTO
    metrics: list[str] = []


@step("prove-old")
def prove_old(run: Redeployment, before: Facts, plan: Plan) -> Old:
    """Ask the running service what the new one will be asked, and write down what it is.

    Raises:
        PlanRefused: it runs, but does not answer so, and nobody said to go on all the same; or
            another process listens in its place.
    """
    if run.finished(_REMEMBERED):
        return _remembered(run, Old())
    if (why := not_startable(before)) and not run.request.even_if_broken and not run.stops():
        raise PlanRefused(f"{why} The service was not stopped.", hint=_KNOWINGLY)
    if before.unit.active_state != "active" or run.stops():
        return Old(kind=run.service.kind)
    stands = standing(run, before.unit.invocation_id, before.unit.n_restarts)
    if stands["others"]:
        raise PlanRefused(
            f"Another process listens in place of {run.service.unit}: "
            f"{in_words(stands['others'])}. "
            "It would answer for the new release as well. The service was not stopped.",
            hint="See what it is and end it.",
        )
    old = Old(address=stands["address"] or LOOPBACK, kind=run.service.kind)
    if not run.request.even_if_broken:
        if stands["address"] is None:
            raise _broken(f"{run.service.unit} does not listen on port {run.service.port}.")
        old.kind = _ask(run, plan.before, old.address)
    with run.reached(old.address) as base_url:
        found = metrics.read(base_url)
    old.metrics = sorted(found.names()) if found else []
    return _remembered(run, old)


def not_startable(facts: Facts) -> str | None:
    """Return why the running release could not be started again as it runs, or None.

    It is what a failed redeploy goes back to.
    """
    unit, gpus = facts.unit, facts.gpus
    if unit.needs_daemon_reload:
        return (
            f"The unit's files ({unit.fragment}) are not what systemd has read: a start would not "
            "be of what runs. Run `systemctl daemon-reload` and restart it, to see that it serves."
        )
    if facts.replaced:
        return (
            f"The service runs from files that are no longer there ({facts.replaced[0]}): "
            f"{facts.environment.path} was changed under it, and nobody has seen it start since."
        )
    if gpus.problem and not gpus.problem.startswith(_NO_DRIVER):
        return f"A new process cannot talk to the GPU driver, so no start would: {gpus.problem}."
    if facts.model is not None and facts.model.problem:
        return f"The model's files could not be looked at: {facts.model.problem}."
    return None


def listening_at(run: Redeployment, before: Facts) -> str:
    """Return the host's own address that the running release listens on, or the loopback."""
    if before.unit.active_state != "active":
        return LOOPBACK
    stands = standing(run, before.unit.invocation_id, before.unit.n_restarts)
    return stands["address"] or LOOPBACK


def _ask(run: Redeployment, version: str, address: str) -> Kind:
    try:
        return ask(run, "prove-old", version, patience=seconds_for("prove-old"), address=address)
    except StepFailed as problem:
        raise _broken(problem.message) from problem


def _broken(how: str) -> PlanRefused:
    return PlanRefused(
        f"{how} It runs, and was not stopped.",
        hint="Correct port, served_model or api_key; if it is only busy, try again later. If it is "
        "broken and shall be replaced all the same: --even-if-broken.",
    )


def _remembered(run: Redeployment, old: Old) -> Old:
    """Write it down on the host; what was written first stands."""
    document = {"document": old.model_dump(mode="json")}
    kept = run.do("prove-old", "remember", document, operation=_REMEMBERED)
    return Old.model_validate(kept["document"])
