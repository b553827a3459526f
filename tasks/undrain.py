"""Put the service back into its router; where that was not done, say so loudly."""

import logging

from blocks.errors import HostError, RedeployError
from tasks.drain import BACK, is_out, turn
from tasks.errors import StepFailed
from tasks.hooks import call_for
from tasks.redeployment import Redeployment
from tasks.steps import step

_NO_HOOK = "there is no undrain hook any more; what the drain hook did has to be undone"


@step("undrain", kept=False)
def undrain(run: Redeployment) -> None:
    """Call the service's undrain hook if it was drained and is not back yet.

    Raises:
        StepFailed: there is no such hook, or it failed.
    """
    put_in(run)


def put_in(run: Redeployment) -> None:
    """Undrain the service, once; see `undrain`."""
    with run.in_phase(""):
        done = _done(run)
        if done is not None and not is_out(done):
            return
        hook = run.service.undrain
        if hook is None:
            raise StepFailed("undrain", "no-hook", "There is no undrain hook.")
        call_for("undrain", hook, run.host)
        run.log(f"back in its router by {hook.in_words()}")
        _remember(run, done)


def put_back(run: Redeployment, serving: bool) -> str:
    """Undrain at the end of a redeploy, however it ended. Never raises.

    Args:
        run: the redeploy.
        serving: whether the service serves, on whichever release.

    Returns:
        "" when it is in its router as before; else one sentence for the verdict.
    """
    how = run.service.undrain.in_words() if run.service.undrain else _NO_HOOK
    try:
        if not _may_be_out(run):
            return ""
        if not serving:
            return (
                "STILL DRAINED: the service does not serve, so it was not put back into its "
                f"router. When it serves: {how}."
            )
        undrain(run)
    except Exception as error:
        run.log_unexpected(error)
        why = str(error).rstrip(".")
        return f"STILL DRAINED: the undrain hook failed: {why}. Do it by hand: {how}."
    return ""


def may_be_out(run: Redeployment) -> str:
    """Return a warning for a run that ends with the service out of its router; "" else."""
    out = " STILL DRAINED, until a resumed run puts it back into its router."
    return out if _may_be_out(run) else ""


def _may_be_out(run: Redeployment) -> bool:
    """Tell whether it is out; where nobody can be asked, whether this run has taken it out."""
    done = _done(run)
    if done is not None:
        return is_out(done)
    steps = [one.step for one in run.times if one.step in ("drain", "undrain")]
    return run.service.drain is not None and steps[-1:] == ["drain"]


def _done(run: Redeployment) -> set[str] | None:
    """Return what the host has recorded as done; None: it cannot be asked."""
    try:
        return run.done()
    except RedeployError:
        return None


def _remember(run: Redeployment, done: set[str] | None) -> None:
    """Write down that it is back, if the host can be reached: it is back all the same."""
    try:
        operation = f"{BACK}-{turn(run.done() if done is None else done)}"
        run.do("undrain", "remember", {"document": {}}, operation=operation)
    except HostError as error:
        run.log(f"That it is back is not recorded: {error}", logging.WARNING)
