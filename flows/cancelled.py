"""What becomes of the host when a person cancels a run: nothing was changed, or it goes back.

A rollback by hand that has stopped the service is brought to its end: it is on the way back.

Prefect ends the run's process first and then calls the hook, in the runner or the worker.
"""

import logging
from typing import Any, cast

from prefect import Flow, flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging.loggers import flow_run_logger
from prefect.states import Completed, Failed

from blocks.errors import RedeployError
from blocks.service import Service
from flows.back_by_hand import back_by_hand
from flows.ended import ended_before
from flows.give_up import give_up, refused
from tasks.discard import given_up
from tasks.errors import StepFailed
from tasks.lock import acquire, release
from tasks.plan import make_plan
from tasks.record import Story, already_ended
from tasks.redeployment import Redeployment
from tasks.request import PREVIOUS, Request
from tasks.snapshot import snapshot
from tasks.undrain import may_be_out

SHUTTING_DOWN = "shutting down"
"""In what Prefect says when the runner ends, and with it its runs; a person's cancel has it not."""
_UNTOUCHED = "Nothing was changed on the host."


class Cancelled(RedeployError):
    """A person has cancelled the redeploy."""


def end_on_host(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """End a cancelled redeploy on its host, and say in its log what has become of it.

    One that is cut off because `redeploy serve` ends is left alone: it can be gone on with.

    Args:
        flow: the flow.
        flow_run: the run whose process has ended.
        state: why it was cancelled.
    """
    if SHUTTING_DOWN in (state.message or ""):
        return
    request = _asked(flow_run.parameters)
    id_ = request.resume or str(flow_run.id)
    ended = after_cancel(request=request, redeploy=id_, return_state=True)
    level = logging.INFO if ended.is_completed() else logging.ERROR
    flow_run_logger(flow_run, flow).log(level, "Cancelled. %s", ended.message)


def _asked(parameters: dict[str, Any]) -> Request:
    """Return what a run of either flow was asked for."""
    asked = parameters.get("request")
    return Request.model_validate(asked or {**parameters, "target": PREVIOUS})


@flow(
    name="cancelled",
    flow_run_name="after the cancel of {request.service} to {request.target}",
    persist_result=False,
)
def after_cancel(request: Request, redeploy: str) -> State[None]:
    """Take away what was staged; or, where the service was stopped, go back.

    Args:
        request: what was asked for.
        redeploy: the id of the redeploy.

    Returns:
        A completed state when the service serves as before, or on the new release for good.
    """
    at_once = request.model_copy(update={"wait_minutes": 0})
    service = cast("Service", Service.load(request.service))
    run = Redeployment(redeploy, at_once, service)
    with run.opened():
        try:
            return _end(run)
        except StepFailed as failure:
            if failure.kind in (
                "locked",
                "unfinished",
            ):  # by another; it never held the environment
                return Completed(message=_UNTOUCHED)
            return _left(run, failure)
        except RedeployError as failure:
            return _left(run, failure)


def _left(run: Redeployment, failure: RedeployError) -> State[None]:
    if not run.is_undertaken():
        return Failed(message=f"{_UNTOUCHED} {failure}", data=failure)
    grace = run.service.grace_seconds
    sentence = f"The host was left to end it by itself, {grace:g} s after it fell silent: {failure}"
    return Failed(message=f"{sentence}{may_be_out(run)}", data=failure)


def _end(run: Redeployment) -> State[None]:
    run.supervisor.install(run.log)
    acquire(run)
    verdict = ended_before(run) or (_give_up(run) if run.is_undertaken() else None)
    good = not run.has_stopped() or _is_up(run)
    release(run)
    if verdict is None:
        return Completed(message=_UNTOUCHED)
    say = Completed if good and not may_be_out(run) else Failed
    return say(message=verdict.message)


def _is_up(run: Redeployment) -> bool:
    """Tell whether the record says that it serves; without a record nobody knows."""
    ended = already_ended(run)
    return ended is not None and ended.result != "down"


def _give_up(run: Redeployment) -> State[None]:
    cancelled = Cancelled("It was cancelled.")
    if run.request.target == PREVIOUS:
        return refused(run, cancelled) if given_up(run) else back_by_hand(run)
    before = run.before = snapshot(run)
    story = Story(before, make_plan(run, before), cancelled=True)
    return give_up(run, story, cancelled)
