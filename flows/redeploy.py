"""The redeploy, step by step, in the operator's words."""

from typing import cast

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from blocks.errors import HostError, RedeployError
from blocks.service import Service
from flows.attempt import AttemptFailed, attempt
from flows.roll_back import roll_back
from tasks.benchmark import DIED, benchmark
from tasks.cleanup import cleanup
from tasks.diagnose import find_cause
from tasks.errors import PlanRefused, StepFailed
from tasks.fix import fix, remedy_for
from tasks.lock import acquire, lock, release
from tasks.plan import make_plan, nothing_to_do, plan_in_words
from tasks.prove_old import prove_old
from tasks.record import Story, already_ended, record_if_possible
from tasks.redeployment import Redeployment
from tasks.reinstall import reinstall
from tasks.request import Request
from tasks.snapshot import snapshot, state_in_words
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
    try:
        service = cast("Service", Service.load(request.service))
    except ValueError:
        return Failed(message=f"No service block named {request.service!r} is saved in Prefect.")
    run = Redeployment(request.resume or str(flow_run.id), request, service)
    with run.opened():
        try:
            lock(run)
            acquire(run)
            verdict = _ended(run) or _redeploy(run)
        except (PlanRefused, StepFailed) as refusal:
            verdict = Failed(message=str(refusal), data=refusal)
        except RedeployError as error:
            return Failed(message=f"{error} {run.how_to_resume}", data=error)
        release(run)
        return verdict


def _ended(run: Redeployment) -> State[None] | None:
    ended = already_ended(run)
    if ended is None:
        return None
    message = f"This redeploy ended at {ended.time}: {ended.verdict}"
    return Completed(message=message) if ended.result == "live" else Failed(message=message)


def _redeploy(run: Redeployment) -> State[None]:
    before = snapshot(run)
    plan = make_plan(run, before)
    if run.request.plan_only:
        return Completed(message=plan_in_words(plan, run.request, before), data=plan)
    if nothing_to_do(plan, run.request):
        return Completed(message=f"Nothing to do: {plan.after} is installed already.")
    prove_old(run, before, plan)
    story = Story(before, plan)
    try:
        stop(run)
        story.staged = reinstall(run, plan)
        verify(run, plan, story.staged)
        story.cleaned = cleanup(run, before)
        story.previous = switch(run, story.staged)
        _bring_up(run, story)
        return _prove(run, story)
    except HostError:
        raise
    except Exception as failure:
        return _go_back(run, story, failure)


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
    story.failed(number, failure, failure.finding)
    if remedy is None:
        raise failure
    with run.in_phase(f"attempt-{number}"):
        fix(run, story.plan, remedy)
    story.cured(remedy)


def _prove(run: Redeployment, story: Story) -> State[None]:
    serving = f"Serving {story.plan.after}"
    try:
        if run.request.benchmark:
            story.benchmark = benchmark(run)
    except StepFailed as failure:
        if failure.kind in DIED:
            find_cause(run, failure, None)
            raise
        verdict = f"{serving}, but: {failure}"
        record_if_possible(run, story, "live, benchmark failed", verdict)
        return Failed(message=verdict, data=failure)
    verdict = f"{serving} after {story.attempts_in_words}."
    return Completed(message=record_if_possible(run, story, "live", verdict))


def _go_back(run: Redeployment, story: Story, failure: Exception) -> State[None]:
    run.log_unexpected(failure)
    back = roll_back(
        version=story.plan.before,
        gpu_baseline=story.before.gpu_baseline(),
        old_environment=story.old_environment(failure),
        return_state=True,
    )
    if back.is_completed():
        verdict = f"Rolled back to {story.plan.before}; serving. {failure}"
        verdict = record_if_possible(run, story, "rolled back", verdict)
    else:
        verdict = f"{state_in_words(run)} {failure} The way back failed: {back.message}"
        verdict = record_if_possible(run, story, "down", verdict)
    return Failed(message=verdict, data=failure)
