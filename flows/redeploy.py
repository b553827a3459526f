"""The redeploy, step by step, in the operator's words."""

from typing import cast

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from blocks.errors import RedeployError
from blocks.service import Service
from flows.attempt import AttemptFailed, attempt
from flows.roll_back import roll_back
from tasks.benchmark import DIED, benchmark
from tasks.cleanup import cleanup
from tasks.diagnose import find_cause
from tasks.errors import PlanRefused, StepFailed
from tasks.fix import fix, remedy_for
from tasks.lock import give_back, lock, take
from tasks.plan import make_plan
from tasks.record import Story, record
from tasks.redeployment import Redeployment
from tasks.reinstall import reinstall
from tasks.request import Request
from tasks.snapshot import snapshot
from tasks.stop import stop
from tasks.switch import switch
from tasks.verify import verify


@flow(
    name="redeploy",
    flow_run_name="redeploy {request.service} to {request.target}",
    persist_result=False,
)
def redeploy(request: Request) -> State[None]:
    """Take a vLLM service to another release, through its crash, and never leave it down."""
    service = cast("Service", Service.load(request.service))
    run = Redeployment(request.resume or str(flow_run.id), request, service)
    with run.opened():
        try:
            lock(run)
            take(run)
            verdict = _redeploy(run)
        except (PlanRefused, StepFailed) as refusal:
            verdict = Failed(message=str(refusal), data=refusal)
        except RedeployError as error:
            return Failed(message=f"{error} {_resume(run)}", data=error)
        give_back(run)
        return verdict


def _redeploy(run: Redeployment) -> State[None]:
    before = snapshot(run)
    plan = make_plan(run, before)
    if run.request.plan_only:
        return Completed(message=f"Planned: {plan.before} → {plan.after}.", data=plan)
    story = Story(before, plan)
    try:
        stop(run)
        staged = reinstall(run, plan)
        verify(run, plan, staged)
        story.cleaned = cleanup(run, before)
        story.previous = switch(run, staged)
        _bring_up(run, story)
    except StepFailed as failure:
        return _go_back(run, story, failure)
    return _prove(run, story)


def _bring_up(run: Redeployment, story: Story) -> None:
    for number in range(1, run.request.attempts + 1):
        state = attempt(
            number=number,
            name=run.attempt_name(number),
            version=story.plan.after,
            gpu_baseline=story.before.gpu_baseline(),
            return_state=True,
        )
        if state.is_completed():
            return story.healthy(number)
        try:
            state.result()
        except AttemptFailed as failure:
            _cure(run, story, number, failure)
    return None


def _cure(run: Redeployment, story: Story, number: int, failure: AttemptFailed) -> None:
    last = number == run.request.attempts
    remedy = None if last else remedy_for(failure.finding, story.tried)
    story.failed(number, failure, failure.finding, remedy)
    if remedy is None:
        raise failure
    with run.in_phase(f"attempt-{number}"):
        fix(run, remedy)


def _go_back(run: Redeployment, story: Story, failure: StepFailed) -> State[None]:
    back = roll_back(
        version=story.plan.before,
        gpu_baseline=story.before.gpu_baseline(),
        switched=story.previous is not None,
        return_state=True,
    )
    if back.is_completed():
        verdict = f"Rolled back to {story.plan.before}; serving. {failure}"
        record(run, story, "rolled back", verdict)
    else:
        verdict = (
            f"DOWN: {failure} The way back failed as well: {back.message} "
            f"Try on {run.service.host.address}: systemctl restart {run.service.unit}"
        )
        record(run, story, "down", verdict)
    return Failed(message=verdict, data=failure)


def _prove(run: Redeployment, story: Story) -> State[None]:
    try:
        if run.request.benchmark:
            story.benchmark = benchmark(run)
    except StepFailed as failure:
        if failure.kind in DIED:
            find_cause(run, failure, None)
            return _go_back(run, story, failure)
        verdict = f"Serving {story.plan.after}, but: {failure}"
        record(run, story, "live, benchmark failed", verdict)
        return Failed(message=verdict, data=failure)
    verdict = f"Serving {story.plan.after} after {len(story.attempts)} attempts."
    record(run, story, "live", verdict)
    return Completed(message=verdict)


def _resume(run: Redeployment) -> str:
    return f"Go on with Retry, or: redeploy run {run.request.service} --resume {run.id}"
