"""Hold the environment: one redeploy at a time, with who, why and when, on the host."""

import logging

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    wait_fixed,
)

from blocks.errors import RedeployError, Refused
from blocks.settings import Settings
from tasks.errors import StepFailed
from tasks.policies import seconds_for
from tasks.redeployment import Redeployment
from tasks.request import PREVIOUS, Request
from tasks.steps import step

_LOOK_SECONDS = 5.0


@step("lock")
def lock(run: Redeployment) -> None:
    """Bring the supervisor up to date and take the environment's lock for this redeploy.

    Raises:
        StepFailed: somebody else holds it, or this is no redeploy of this service.
    """
    run.supervisor.install(run.log)
    acquire(run)
    run.log(f"{run.id} holds {run.service.environment}")


def acquire(run: Redeployment) -> None:
    """Take or renew the lock, once a run, and go by the wish that this redeploy began with.

    A resumed run, whose `lock` task answers from its result, does so too.
    """
    if run.holds_lock:
        return
    if run.request.resume:
        _require_same_flow(run)
    payload = {
        "environment": run.service.environment,
        "holder": run.id,
        "who": run.request.who,
        "why": run.request.reason or f"redeploy to {run.request.target}",
        "lease_seconds": Settings().lease_seconds,
    }
    run.holds_lock = True  # also when the answer is lost
    patience = Retrying(
        retry=retry_if_exception(_is_held),
        stop=stop_after_delay(run.request.wait_minutes * 60),
        wait=wait_fixed(_LOOK_SECONDS),
        before_sleep=lambda state: _say_once(run, state),
        reraise=True,
    )
    try:
        answer = patience(run.supervisor.call, "lock", payload, timeout=seconds_for("lock"))
    except Refused as refused:
        run.holds_lock = False
        raise StepFailed.of("lock", refused) from refused
    run.request = _first_wish(run)
    if answer.get("taken_over"):
        run.log(f"Took over the lock of a redeploy that fell silent: {answer['taken_over']}")


def _require_same_flow(run: Redeployment) -> None:
    """Look, before the lock is touched, whether what is to be gone on with is one of this flow."""
    asked = {"operation": f"{run.id}/request"}
    begun = run.supervisor.call("recorded", asked)["answer"]
    if not begun or not begun["result"]:
        raise StepFailed(
            "lock", "unknown", f"The host knows no redeploy {run.id}.", hint="Nothing was changed."
        )
    back = begun["result"]["document"]["request"]["target"] == PREVIOUS
    if back != (run.request.target == PREVIOUS):
        raise StepFailed(
            "lock",
            "other-flow",
            f"{run.id} is a {'rollback' if back else 'redeploy'}; nothing was changed.",
            hint=f"Go on with it: redeploy resume {run.id}",
        )


def _is_held(error: BaseException) -> bool:
    return isinstance(error, Refused) and error.kind in ("locked", "unfinished")


def _say_once(run: Redeployment, state: RetryCallState) -> None:
    if state.attempt_number == 1 and state.outcome is not None:
        run.log(f"Waiting for up to {run.request.wait_minutes} min: {state.outcome.exception()}")


def _first_wish(run: Redeployment) -> Request:
    """Return the wish that this redeploy began with, if it is one of this very service."""
    mine = {"unit": run.service.unit, "environment": run.service.environment}
    wish = {"request": run.request.model_dump(mode="json"), **mine}
    first = run.do("lock", "remember", {"document": wish}, operation="request")["document"]
    request = Request.model_validate(first["request"])
    if request.service != run.request.service or any(first[name] != mine[name] for name in mine):
        raise StepFailed(
            "lock",
            "other-service",
            f"{run.id} is a redeploy of {request.service}, {first['unit']} in "
            f"{first['environment']}, and not of what was asked for.",
            hint="Nothing was changed.",
        )
    return request


def release(run: Redeployment) -> None:
    """Give the lock back, if it was taken; when the link is down, its lease runs out."""
    if not run.holds_lock:
        return
    asked = {"environment": run.service.environment, "holder": run.id}
    try:
        run.supervisor.call("unlock", asked)
    except RedeployError as error:
        run.log(f"The lock was not given back and ends with its lease: {error}", logging.WARNING)
