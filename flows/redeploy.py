"""The redeploy, step by step, in the operator's words."""

from typing import cast

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from blocks.errors import HostError
from blocks.service import Service
from flows.attempt import AttemptFailed, attempt
from flows.cancelled import end_on_host
from flows.ended import ended_before
from flows.give_up import cut_off, give_up, refused
from tasks.benchmark import DIED, benchmark, can_be_measured
from tasks.cleanup import cleanup
from tasks.diagnose import find_cause
from tasks.drain import drain
from tasks.earlier_starts import present_start
from tasks.errors import PlanRefused, StepFailed
from tasks.facts import Facts
from tasks.fix import fix, remedy_for
from tasks.guard import guard
from tasks.lock import acquire, lock, release
from tasks.metrics import names_gone
from tasks.nightly import Standing, standing
from tasks.plan import WOULD_BE_REFUSED, make_plan, plan_in_words, refuse_if
from tasks.planned import Plan
from tasks.prove_old import prove_old
from tasks.record import Story, record_if_possible
from tasks.redeployment import Redeployment
from tasks.reinstall import Staged, reinstall
from tasks.request import Request, Strategy
from tasks.snapshot import snapshot
from tasks.stop import stop
from tasks.switch import previous_path, switch
from tasks.undrain import put_back
from tasks.verify import verify
from tasks.wait_healthy import Serving


@flow(
    name="redeploy",
    flow_run_name="redeploy {request.service} to {request.target}",
    persist_result=False,
    on_cancellation=[end_on_host],
)
def redeploy(request: Request) -> State[None]:
    """Take a vLLM service to another release, through its crash, and never leave it down."""
    try:
        service = cast("Service", Service.load(request.service))
    except ValueError:
        return Failed(message=f"No service block named {request.service!r} is saved in Prefect.")
    run = Redeployment(request.resume or str(flow_run.id), request, service)
    with run.opened():
        try:
            lock(run)
            acquire(run)
            verdict = ended_before(run) or _redeploy(run)
        except (PlanRefused, StepFailed) as refusal:
            verdict = refused(run, refusal)
        except Exception as error:
            verdict = cut_off(run, error)
            if run.is_undertaken():
                return verdict  # and keep the lock: it is gone on with, or the host ends it
        release(run)
        return verdict


def _redeploy(run: Redeployment) -> State[None]:
    before = run.before = snapshot(run)
    plan = make_plan(run, before)
    stands = standing(run, plan)
    if run.request.plan_only:
        return Completed(message=_foreseen(run, before, plan, stands), data=plan)
    if stands.idle:
        return Completed(message=stands.idle)
    refuse_if(stands.barred)
    old = prove_old(run, before, plan)
    run.kind = old.kind
    story = Story(before, plan, old.metrics)
    try:
        guard(run, story)
        if run.request.strategy is Strategy.STAGED:
            _stage(run, story)
        story.drained = drain(run, old.address)
        if run.request.strategy is Strategy.CLASSIC:
            stop(run)
            switch(run, _stage(run, story))
        story.previous = previous_path(run)
        serving = _bring_up(run, story)
        return _prove(run, story, serving)
    except HostError:
        raise
    except Exception as failure:
        return give_up(run, story, failure)


def _foreseen(run: Redeployment, before: Facts, plan: Plan, stands: Standing) -> str:
    """Return what would become of the plan; the running release is asked as a run would."""
    said = plan_in_words(plan, run.request, before, stands)
    if stands.idle or WOULD_BE_REFUSED in said:
        return said
    try:
        prove_old(run, before, plan)
    except PlanRefused as refusal:
        return f"{said} {WOULD_BE_REFUSED} {refusal}"
    return said


def _stage(run: Redeployment, story: Story) -> Staged:
    """Build the new environment beside the old one, prove it, and take out the rubbish."""
    story.staged = reinstall(run, story.plan)
    verify(run, story.plan, story.staged)
    story.cleaned = cleanup(run, story.before)
    return story.staged


def _bring_up(run: Redeployment, story: Story) -> Serving:
    number = 0
    while True:
        number += 1
        state = attempt(
            number=number,
            name=run.attempt_name(number),
            version=story.plan.after,
            gpu_baseline=story.before.gpu_baseline(),
            staged=story.staged if run.request.strategy is Strategy.STAGED else None,
            return_state=True,
        )
        try:
            serving = cast("Serving", state.result())
        except AttemptFailed as failure:
            _cure(run, story, number, failure)
            continue
        story.healthy(number, serving, present_start(run, story.plan.after))
        return serving


def _cure(run: Redeployment, story: Story, number: int, failure: AttemptFailed) -> None:
    last = number == run.request.attempts
    remedy = None if last else remedy_for(failure.finding, story.tried)
    story.failed(number, failure, failure.finding)
    if remedy is None:
        raise failure
    with run.in_phase(f"attempt-{number}"):
        fixed = fix(run, story.plan, remedy)
    story.cured(fixed)


def _prove(run: Redeployment, story: Story, serving: Serving) -> State[None]:
    story.metrics_gone = names_gone(run, story.metrics_before, serving.address)
    said = f"Serving {story.plan.after}"
    try:
        if run.request.benchmark and can_be_measured(run, serving.kind):
            story.benchmark = benchmark(run)
    except StepFailed as failure:
        if failure.kind in DIED:
            find_cause(run, failure, None)
            raise
        verdict = f"{said}, but: {failure} {put_back(run, serving=True)}".strip()
        record_if_possible(run, story, "live, benchmark failed", verdict)
        return Failed(message=verdict, data=failure)
    drained = put_back(run, serving=True)
    verdict = f"{said} after {story.attempts_in_words} {drained}".strip()
    verdict = record_if_possible(run, story, "live", verdict)
    return Failed(message=verdict) if drained else Completed(message=verdict)
