"""A rollback by hand: to the release before the live one, with the same wait and the same smoke."""

from typing import cast

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from blocks.errors import HostError, RedeployError
from blocks.service import Service
from blocks.types import OneLine, ServiceName
from flows.ended import ended_before
from flows.way_back import roll_back
from tasks.drain import drain
from tasks.earlier_starts import present_start
from tasks.errors import PlanRefused, StepFailed
from tasks.guard import guard
from tasks.lock import acquire, lock, release
from tasks.plan_back import plan_back
from tasks.prove_old import listening_at
from tasks.record import Story, record_if_possible
from tasks.redeployment import Redeployment
from tasks.request import PREVIOUS, Request, RunId
from tasks.snapshot import snapshot, state_in_words
from tasks.undrain import may_be_out, put_back
from tasks.wait_healthy import Serving


@flow(name="rollback", flow_run_name="rollback of {service}", persist_result=False)
def rollback(
    service: ServiceName,
    reason: OneLine = "",
    requested_by: OneLine = "",
    resume: RunId | None = None,
) -> State[None]:
    """Take a service back to the release that was live before the present one.

    Args:
        service: the name of a saved service block.
        reason: why; kept in the record.
        requested_by: who asks.
        resume: the id of a rollback that was cut off: go on where its host's record ends.
    """
    try:
        block = cast("Service", Service.load(service))
    except ValueError:
        return Failed(message=f"No service block named {service!r} is saved in Prefect.")
    wish = Request(
        service=service,
        target=PREVIOUS,
        reason=reason,
        requested_by=requested_by,
        resume=resume,
    )
    run = Redeployment(resume or str(flow_run.id), wish, block)
    with run.opened():
        try:
            lock(run)
            acquire(run)
            verdict = ended_before(run) or _roll_back(run)
        except (PlanRefused, StepFailed) as refusal:
            back = put_back(run, serving=True) if run.holds_lock else may_be_out(run)
            verdict = Failed(message=f"{refusal} {back}".strip(), data=refusal)
        except Exception as error:
            run.log_unexpected(error)
            why = error if isinstance(error, RedeployError) else f"{type(error).__name__}: {error}."
            return Failed(message=f"{why} {run.how_to_resume}{may_be_out(run)}", data=error)
        release(run)
        return verdict


def _roll_back(run: Redeployment) -> State[None]:
    before = run.before = snapshot(run)
    story = Story(before, plan_back(run, before))
    guard(run, story)
    story.drained = drain(run, listening_at(run, before))
    back = roll_back(version=story.plan.after, return_state=True)
    end = back.result(raise_on_failure=False)
    if isinstance(end, HostError):
        raise end
    if not isinstance(end, Serving):
        verdict = f"{state_in_words(run)} The way back failed: {back.message}"
        verdict = f"{verdict} {put_back(run, serving=False)}".strip()
        return Failed(message=record_if_possible(run, story, "down", verdict))
    story.started(end, present_start(run, story.plan.after))
    drained = put_back(run, serving=True)
    verdict = f"Rolled back to {story.plan.after}; serving. {drained}".strip()
    verdict = record_if_possible(run, story, "live", verdict)
    return Failed(message=verdict) if drained else Completed(message=verdict)
