"""The end of a redeploy that cannot or must not go on: nothing was changed, or it goes back."""

from prefect.client.schemas.objects import State
from prefect.states import Failed

from blocks.errors import HostError, RedeployError
from flows.way_back import roll_back
from tasks.discard import given_up
from tasks.earlier_starts import present_start
from tasks.errors import PlanRefused
from tasks.record import Story, record_if_possible
from tasks.redeployment import Redeployment
from tasks.snapshot import state_in_words
from tasks.undrain import may_be_out, put_back
from tasks.wait_healthy import Serving

_UNTOUCHED = "The service was not stopped."


def refused(run: Redeployment, refusal: RedeployError) -> State[None]:
    """End a run that did not stop the service; one that was taken out of its router is put back."""
    mine = run.holds_lock and not run.has_stopped()
    back = put_back(run, serving=True) if mine else may_be_out(run)
    return Failed(message=f"{refusal} {back.strip()}".strip(), data=refusal)


def cut_off(run: Redeployment, error: Exception) -> State[None]:
    """End a run that an error kept from going on; one that holds the environment can go on."""
    run.log_unexpected(error)
    why = str(error) if isinstance(error, RedeployError) else f"{type(error).__name__}: {error}."
    begun = run.holds_lock or run.request.resume
    on = f" {run.how_to_resume}" if begun else ""
    return Failed(message=f"{why}{on}{may_be_out(run)}", data=error)


def give_up(run: Redeployment, story: Story, failure: Exception) -> State[None]:
    """Take away what was staged, or, where the service was stopped, go back and record it.

    Args:
        run: the redeploy.
        story: what is known of it.
        failure: why it does not go on.

    Returns:
        A failed state that says what has become of the service.

    Raises:
        HostError: the host cannot be asked to go back.
    """
    run.log_unexpected(failure)
    if given_up(run):
        said = str(failure)
        told = said if _UNTOUCHED in said else f"{said} {_UNTOUCHED}"
        return refused(run, PlanRefused(told))
    story.previous = None
    way_back = roll_back(version=story.plan.before, return_state=True)
    end = way_back.result(raise_on_failure=False)
    if isinstance(end, HostError):
        raise end
    if isinstance(end, Serving):
        story.started(end, present_start(run, story.plan.before))
        verdict = f"Rolled back to {story.plan.before}; serving. {failure}"
        verdict = f"{verdict} {put_back(run, serving=True)}".strip()
        verdict = record_if_possible(run, story, "rolled back", verdict)
    else:
        verdict = f"{state_in_words(run)} {failure} The way back failed: {way_back.message}"
        verdict = f"{verdict} {put_back(run, serving=False)}".strip()
        verdict = record_if_possible(run, story, "down", verdict)
    return Failed(message=verdict, data=failure)
