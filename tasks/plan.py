"""The plan: which wheel, which packages, what is out of step. Changes nothing on the host."""

import logging
from typing import Any

import httpx
from packaging.version import Version
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from blocks.settings import Settings
from tasks import report
from tasks.artifacts import publish
from tasks.errors import PlanRefused
from tasks.facts import Facts
from tasks.foresee import between_stop_and_start, down_time
from tasks.nightly import Standing
from tasks.packages import versions
from tasks.packages.diff import diff
from tasks.packages.index import LATEST, NIGHTLY, Wheel, find_wheel, is_version, wheel_at
from tasks.packages.pages import NoWheel
from tasks.packages.roots import orphans
from tasks.packages.versions import commit_delta
from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.release import ReleaseRecord
from tasks.request import PREVIOUS, Request, SkewPolicy
from tasks.resolve import resolve, skews_with
from tasks.steps import step

_SPARE_BYTES = 256 * 1024**2
_INDEX_TRIES = 3
_CPU = "cpu"
WOULD_BE_REFUSED = "A run would be refused:"
_NOTHING_CHANGED = "Nothing was changed on the host."


@step("plan")
def make_plan(run: Redeployment, facts: Facts) -> Plan:
    """Resolve the target exactly and compare it with what is there.

    The first plan of a redeploy is recorded on the host; a resumed run gets that one back.

    Raises:
        PlanRefused: the redeploy would fail, or asks for what is not there yet.
        StepFailed: the packages cannot be resolved.
    """
    recorded = run.finished("plan")
    if not recorded:
        refuse_if(not_there_yet(run.request))
    plan = _kept(run, {} if recorded else _draw_up(run, facts).model_dump(mode="json"))
    publish(run, "plan", report.plan_page(plan), f"{plan.before} → {plan.after}")
    if not run.request.plan_only and not run.stops():
        refuse_if(objection(plan, run.request, facts))
    for other in facts.environment.others:
        run.log(f"lives from it as well: {other.in_words}: {other.command}", logging.WARNING)
    for repair in plan.repairs:
        run.log(f"{repair.package} {repair.before} → {repair.version}: {repair.sentence}")
    for name, why in plan.kept.items():
        run.log(f"{name} stays as it is: {why}", logging.WARNING)
    run.log(
        f"{plan.before} → {plan.after}: {len(plan.locked)} packages, "
        f"{len(plan.changes.left_behind)} left behind, "
        f"commits: {'unknown' if plan.delta.count is None else plan.delta.count}"
    )
    return plan


def plan_in_words(plan: Plan, request: Request, facts: Facts, standing: Standing) -> str:
    """Return what would happen to this plan, in a sentence."""
    planned = f"Planned: {plan.before} → {plan.after}."
    if standing.idle:
        return f"{planned} A run would do nothing. {standing.idle}"
    said = not_there_yet(request) or objection(plan, request, facts) or standing.barred
    return f"{planned} {WOULD_BE_REFUSED} {said}" if said else planned


def not_there_yet(request: Request) -> str | None:
    """Return the sentence for a wish that this version cannot grant, or None."""
    if request.target == PREVIOUS:
        return "The previous release lies on the host: go back to it by a rollback."
    return None


def objection(plan: Plan, request: Request, facts: Facts) -> str | None:
    """Return why this plan must not be carried out, or None."""
    if others := in_use(facts):
        return others
    fatal = [skew for skew in plan.skews if skew.fatal]
    if fatal and request.skew is not SkewPolicy.PROCEED:
        tried = request.skew is SkewPolicy.REPAIR
        cure = " No index offers what would put that right." if tried else ""
        return f"Packages will be out of step: {' '.join(skew.sentence for skew in fatal)}{cure}"
    if request.target == NIGHTLY and Version(plan.after) < Version(plan.before):
        return (
            f"The nightly index offers {plan.after}, which is older than {plan.before}. "
            "Name that version as the target if you want it."
        )
    if wrong := another_torch(plan, facts.environment.versions().get("torch")):
        return wrong
    free, used = facts.environment.free_bytes, facts.environment.used_bytes
    if free is not None and used is not None and free < used + _SPARE_BYTES:
        return (
            f"The copy of {facts.environment.path} needs {(used + _SPARE_BYTES) / 1e6:,.0f} MB; "
            f"{free / 1e6:,.0f} MB are free."
        )
    return None


def not_what_was_asked_for(wheel: Wheel | None, locked: str) -> str | None:
    """Return why what was resolved is not the wheel that was asked for, or None."""
    if wheel is None or locked == wheel.version:
        return None
    if versions.variant_of(locked) != versions.variant_of(wheel.version):
        how = "the build for another CUDA"
    elif Version(locked).is_prerelease:
        how = "another pre-release"
    else:
        how = "a stable release, in the place of the nightly"
    return f"{wheel.version} was asked for, but uv resolves {locked}, {how}."


def another_torch(plan: Plan, before: str | None) -> str | None:
    """Return why torch would not be the build that vLLM was built against, or None.

    An index in front of the others can have the same version for a CPU, or for another CUDA. What
    its version does not say is not judged.
    """
    after = plan.locked.get("torch")
    build, variant = _build(after), plan.wheel.variant if plan.wheel else None
    wrong = build != variant if variant else build == _CPU and _build(before) != _CPU
    if build is None or not wrong:
        return None
    return f"torch would be {after}, a build for {build}, where vLLM's is for {variant or 'CUDA'}."


def _build(version: str | None) -> str | None:
    """Return what a version of torch was built for, where it says so: `cu130`, `cpu`."""
    return Version(version).local if version else None


def in_use(facts: Facts) -> str | None:
    """Return which other services live from the environment, in a sentence, or None."""
    named = [one.in_words for one in facts.environment.others if one.is_service]
    if not named:
        return None
    return (
        f"{facts.environment.path} is used by others as well: {', '.join(named)}. They would run "
        "on from files that are no longer there. Give each service an environment of its own."
    )


def refuse_if(objection_: str | None) -> None:
    """Raise PlanRefused with an objection, if there is one."""
    if objection_:
        raise PlanRefused(objection_, hint=_NOTHING_CHANGED)


def _draw_up(run: Redeployment, facts: Facts) -> Plan:
    probed = run.supervisor.call("probe", {"environment": run.service.environment})
    refuse_if(probed["problem"] and f"The environment cannot be switched: {probed['problem']}.")
    service, installed = run.service, facts.environment.versions()
    requirement, wheel = _asked_for(run, facts)
    found = resolve(run, facts, requirement)
    locked = found.resolved.packages
    refuse_if(not_what_was_asked_for(wheel, locked[service.distribution]))
    return Plan(
        before=installed[service.distribution],
        after=locked[service.distribution],
        wheel=wheel,
        lock=found.resolved.lock,
        locked=locked,
        changes=diff(installed, {**installed, **locked}, locked),
        delta=commit_delta(installed[service.distribution], locked[service.distribution]),
        skews=skews_with(facts, locked),
        repairs=found.repairs,
        kept=found.resolved.kept,
        orphans=orphans(
            facts.environment.installed(), facts.markers(), service.distribution, locked
        ),
        first_indexes=found.first_indexes,
        switch=probed["how"],
        down_seconds=down_time(_records(run), run.request.strategy),
        commands=between_stop_and_start(service, run.request.strategy, probed["how"]),
    )


def _records(run: Redeployment) -> list[ReleaseRecord]:
    answer = run.supervisor.call("history", {"environment": run.service.environment})
    return [ReleaseRecord.model_validate(one) for one in answer["releases"]]


def _kept(run: Redeployment, drawn_up: dict[str, Any]) -> Plan:
    """Return the first plan that the host has recorded under this redeploy."""
    kept = run.do("plan", "remember", {"document": drawn_up})
    return Plan.model_validate(kept["document"])


def _asked_for(run: Redeployment, facts: Facts) -> tuple[str, Wheel | None]:
    """Return the requirement that the target means, and the wheel, where an index has to name it.

    A release is published as a package as well: where no index of wheels has it, uv looks.
    """
    name, target = run.service.distribution, run.request.target
    if target == LATEST:
        return name, None
    try:
        wheel = _wheel(run, facts)
    except NoWheel as error:
        if error.why in ("not-there", "target") and is_version(target) and "+" not in target:
            return f"{name}=={target.removeprefix('v')}", None
        raise PlanRefused(error.message, hint=error.hint or _NOTHING_CHANGED) from error
    return f"{name} @ {wheel.url}", wheel


def _wheel(run: Redeployment, facts: Facts) -> Wheel:
    service, target = run.service, run.request.target
    machine = facts.host.machine
    python = facts.environment.python_version or facts.host.python
    if target.partition("#")[0].endswith(".whl"):
        return wheel_at(target, service.distribution, machine=machine, python=python)
    again = Retrying(
        retry=retry_if_exception(_is_passing),
        stop=stop_after_attempt(_INDEX_TRIES),
        wait=wait_exponential_jitter(multiplier=1, max=10),
        reraise=True,
    )
    with httpx.Client(timeout=Settings().index_timeout_seconds) as client:
        return again(
            find_wheel,
            client,
            service.wheel_index,
            target,
            machine=machine,
            python=python,
            distribution=service.distribution,
            variant=service.variant,
        )


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, NoWheel) and error.why in ("unreachable", "refused")
