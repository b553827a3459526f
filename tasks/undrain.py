"""Put the service back into its router; where that was not done, say so loudly."""

import logging

from blocks.errors import HostError
from tasks.drain import BEGUN
from tasks.errors import StepFailed
from tasks.hooks import HookFailed, call
from tasks.redeployment import Redeployment
from tasks.steps import step

DONE = "undrained"
_NO_HOOK = "this service has no undrain hook; what its drain hook did has to be undone"


@step("undrain")
def undrain(run: Redeployment) -> None:
    """Call the service's undrain hook if it was drained and is not back yet.

    Raises:
        StepFailed: there is no such hook, or it failed.
    """
    put_in(run)


def put_in(run: Redeployment) -> None:
    """Undrain the service, once; see `undrain`."""
    with run.in_phase(""):
        if not _is_out(run):
            return
        hook = run.service.undrain
        if hook is None:
            raise StepFailed("undrain", "no-hook", "There is no undrain hook.")
        try:
            call(hook, run.host)
        except HookFailed as failure:
            raise StepFailed(
                "undrain", "hook-failed", failure.message, hint=failure.hint, answer=failure.answer
            ) from failure
        run.log(f"back in its router by {hook.in_words()}")
        _remember(run)


def put_back(run: Redeployment, serving: bool) -> str:
    """Undrain at the end of a redeploy, however it ended. Never raises.

    Args:
        run: the redeploy.
        serving: whether the service serves, on whichever release.

    Returns:
        "" when it is in its router as before; else one sentence for the verdict.
    """
    if run.service.drain is None:
        return ""
    how = run.service.undrain.in_words() if run.service.undrain else _NO_HOOK
    try:
        if not serving:
            return _left_out(run, how)
        undrain(run)
    except Exception as error:
        run.log_unexpected(error)
        why = str(error).rstrip(".")
        return f"STILL DRAINED: the undrain hook failed: {why}. Do it by hand: {how}."
    return ""


def may_be_out(run: Redeployment) -> str:
    """Return a warning where the run ends after it has begun to drain; "" where it has not."""
    passed = {time.step for time in run.times}
    out = run.service.drain is not None and "drain" in passed and "undrain" not in passed
    return " STILL DRAINED, until a resumed run puts it back into its router." if out else ""


def _left_out(run: Redeployment, how: str) -> str:
    with run.in_phase(""):
        if not _is_out(run):
            return ""
    return (
        "STILL DRAINED: the service does not serve, so it was not put back into its router. "
        f"When it serves: {how}."
    )


def _is_out(run: Redeployment) -> bool:
    """Tell whether draining was begun and not undone; in doubt it was, since a hook may repeat."""
    try:
        return run.finished(BEGUN) and not run.finished(DONE)
    except HostError:
        return run.service.drain is not None


def _remember(run: Redeployment) -> None:
    """Write down that it is back, if the host can be reached: it is back all the same."""
    try:
        run.do("undrain", "remember", {"document": {}}, operation=DONE)
    except HostError as error:
        run.log(f"That it is back is not recorded: {error}", logging.WARNING)
