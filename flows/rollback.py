"""A rollback by hand: to the release before the live one, with the same wait and the same smoke."""

from typing import cast

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Failed

from blocks.service import Service
from blocks.types import OneLine, ServiceName
from flows.back_by_hand import back_by_hand
from flows.cancelled import end_on_host
from flows.ended import ended_before
from flows.give_up import cut_off, refused
from tasks.errors import PlanRefused, StepFailed
from tasks.lock import acquire, lock, release
from tasks.redeployment import Redeployment
from tasks.request import PREVIOUS, Request, RunId


@flow(
    name="rollback",
    flow_run_name="rollback of {service}",
    persist_result=False,
    on_cancellation=[end_on_host],
)
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
            verdict = ended_before(run) or back_by_hand(run)
        except (PlanRefused, StepFailed) as refusal:
            verdict = refused(run, refusal)
        except Exception as error:
            verdict = cut_off(run, error)
            if run.is_undertaken():
                return verdict  # and keep the lock: it is gone on with, or the host ends it
        release(run)
        return verdict
