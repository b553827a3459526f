"""A rollback by hand, once the environment is held: also to its end, where it was cancelled."""

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from blocks.errors import HostError
from flows.way_back import roll_back
from tasks.drain import drain
from tasks.earlier_starts import present_start
from tasks.guard import guard
from tasks.plan_back import plan_back
from tasks.prove_old import listening_at
from tasks.record import Story, record_if_possible
from tasks.redeployment import Redeployment
from tasks.snapshot import snapshot, state_in_words
from tasks.undrain import put_back
from tasks.wait_healthy import Serving


def back_by_hand(run: Redeployment) -> State[None]:
    """Go back to the release before the live one, from wherever this rollback has come to.

    Returns:
        A completed state when it serves again.

    Raises:
        PlanRefused: no release lies beside the live one.
        StepFailed: the service was not stopped, and why.
        HostError: the host cannot be asked.
    """
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
