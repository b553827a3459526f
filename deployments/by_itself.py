"""A run whose process or worker died goes on by itself, a few times.

That it died is told by Prefect: by the runner or the worker that saw its process end, or, where
they died as well, by an automation that misses its heartbeats. Going on is done here, where it is
counted, and where a run that a person has ended is told from one that died.
"""

import contextvars
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from prefect.automations import Automation
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import State, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.logging import get_logger
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.states import AwaitingRetry, Failed

from blocks.settings import Settings
from deployments.triggers import TAG
from flows.redeploy import redeploy
from flows.rollback import rollback

SETTLED_SECONDS = 20
"""A worker reports a crash twice, 10 s apart; the second report would undo what is done here."""
FORGOTTEN_SECONDS = 600
HEARTBEAT_SECONDS = 30  # the least that Prefect takes
GOES_ON = "Goes on by itself"
_LOOK_SECONDS = 5
_FLOWS = [redeploy.name, rollback.name]
_AUTOMATION = "vllm-redeploy: a run fell silent"


@contextmanager
def going_on() -> Iterator[None]:
    """Go on with runs that died while the block runs, on the Prefect API in use."""
    notice_silence(Settings().silence_seconds)
    over = threading.Event()
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: HEARTBEAT_SECONDS}):
        settings = contextvars.copy_context()  # a thread begins without
        thread = threading.Thread(target=settings.run, args=(_watch, over), name="going-on")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def notice_silence(seconds: int) -> None:
    """Have Prefect call a run of ours crashed that has given no sign of life for so long."""
    silence = Automation(
        name=_AUTOMATION,
        description="Its process died, and so did the runner or the worker that would say so.",
        trigger=EventTrigger(
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related=[
                {"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"},
                {"prefect.resource.role": "flow", "prefect.resource.name": _FLOWS},
            ],
            for_each={"prefect.resource.id"},
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.*"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=seconds),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, message=f"It has given no sign of life for {seconds} s."
            )
        ],
    )
    try:
        known = cast("Automation", Automation.read(name=_AUTOMATION))
    except ValueError:
        silence.create()
        return
    # An update makes Prefect forget what it has heard, and so those who have fallen silent since.
    if _essence(known) != _essence(silence):
        silence.id = known.id
        silence.update()


def _essence(one: Automation) -> dict[str, Any]:
    """Return what an automation does, without the numbers that Prefect gives."""
    return one.model_dump(mode="json", include={"trigger", "actions"}, exclude={"trigger": {"id"}})


def next_state(states: Sequence[State], now: datetime, most: int) -> State | None:
    """Return the state that a run is to be put into, or None.

    Args:
        states: all states that it was in, oldest first.
        now: the time.
        most: how often a run may go on by itself.
    """
    last = states[-1]
    if (
        not most
        or not last.is_crashed()
        or now - last.timestamp < timedelta(seconds=SETTLED_SECONDS)
    ):
        return None
    begun = max((number for number, state in enumerate(states) if state.is_scheduled()), default=0)
    if any(state.is_cancelling() or state.is_cancelled() for state in states[begun:]):
        return None
    made = sum((state.message or "").startswith(GOES_ON) for state in states)
    if made < most:
        return AwaitingRetry(message=f"{GOES_ON}, {made + 1} of {most}. {last.message or ''}")
    return Failed(
        message=f"Its process has died again, after it has gone on by itself {made} times. "
        "Go on with Retry; else the host ends it by itself."
    )


def _watch(over: threading.Event) -> None:
    with get_client(sync_client=True) as client:
        while not over.wait(_LOOK_SECONDS):
            try:
                _look(client, Settings().resumptions)
            except Exception as error:  # the next look may be better
                get_logger("vllm_redeploy").warning("Runs that died were not seen: %s", error)


def _look(client: SyncPrefectClient, most: int) -> None:
    now = datetime.now(UTC)
    recently = now - timedelta(seconds=FORGOTTEN_SECONDS)
    crashed = FlowRunFilterStateType(any_=[StateType.CRASHED])
    runs = client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=_FLOWS)),
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=crashed),
            tags=FlowRunFilterTags(all_=[TAG]),
            end_time=FlowRunFilterEndTime(after_=recently),
        ),
    )
    for run in runs:
        states = sorted(client.read_flow_run_states(run.id), key=lambda one: one.timestamp)
        state = next_state(states, now, most) if states else None
        if state is not None:
            client.set_flow_run_state(run.id, state)
