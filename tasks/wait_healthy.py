"""Wait until the service serves, or its start has failed. Progress is judged on the host."""

import logging
from typing import Any

from pydantic import BaseModel

from blocks.service import Service
from blocks.settings import Settings
from blocks.types import Kind
from tasks import metrics
from tasks.earlier_starts import earlier_starts
from tasks.errors import StepFailed
from tasks.live import LIVE
from tasks.readiness import NotReady, Wanted, wait_until_ready
from tasks.redeployment import Redeployment
from tasks.shown import Shown
from tasks.start import Launched
from tasks.startup.history import History
from tasks.startup.stages import STAGES
from tasks.steps import step

_MARGIN_SECONDS = 120
LAST_LINES = 80
LOOPBACK = "127.0.0.1"


class StageTime(BaseModel):
    """A stage of the start: when it began after the launch and how long it took, in seconds."""

    name: str
    at: float
    seconds: float | None = None


class Slow(BaseModel):
    """A time in which nothing of the start moved: where, how long, and what its processes did."""

    stage: str
    quiet_seconds: float
    why: str
    doing: list[str] = []


class Serving(BaseModel):
    """A start that serves: what it went through on the way, and what it is.

    `seconds` are those of each stage, for the starts to come; `restarts` are systemd's, on the
    way; `heartbeat` is "working", "idle" or "unknown".
    """

    invocation: str
    stages: list[StageTime] = []
    seconds: dict[str, float] = {}
    cache: str | None = None
    restarts: int = 0
    slow: list[Slow] = []
    listening_after_seconds: float
    started: float = 0
    address: str = LOOPBACK
    kind: Kind = Kind.AUTO
    heartbeat: str = "unknown"


@step("wait-healthy")
def wait_healthy(run: Redeployment, launched: Launched, version: str) -> Serving:
    """Follow the start on the host, ask the service itself, and see that it goes on.

    Args:
        run: the redeploy.
        launched: the start to follow.
        version: what the service must say it is.

    Raises:
        StepFailed: it crashed, left, hung past a limit, stalled, or is not what was asked for.
    """
    history = earlier_starts(run, version)
    result = run.do(
        "wait-healthy",
        "watch",
        {**_watching(run, launched), "longest": longest(history)},
        deadline_seconds=run.service.start_deadline_seconds + _MARGIN_SECONDS,
        on_progress=Shown(run, history),
    )
    serving = Serving.model_validate({"invocation": launched.invocation, **result})
    restarts = serving.restarts
    launched = launched.model_copy(update={"invocation": serving.invocation, "restarts": restarts})
    if restarts:
        run.log(f"systemd has restarted it on the way; restarts: {restarts}", logging.WARNING)
    LIVE.info("listening; it is asked whether it serves")
    try:
        serving.kind = ask(run, "wait-healthy", version, launched=launched, address=serving.address)
        serving.heartbeat = _steady(run, launched, serving)
        # An engine that hung while it was idle still says that it is idle.
        ask(run, "wait-healthy", version, launched=launched, address=serving.address)
        if serving.heartbeat == "hung":  # it was at work on one long prompt: it has answered
            serving.heartbeat = "working"
    except StepFailed:
        _hold(run, launched, 0, "look")  # a service that died is what failed, not its answer
        raise
    run.log(
        f"serving {version} after {serving.listening_after_seconds:.1f} s, "
        f"answers as {serving.kind}, {serving.heartbeat}"
    )
    return serving


@step("wait-healthy")
def answers_again(run: Redeployment, serving: Serving, version: str) -> Serving:
    """Ask a service that the host has brought back whether it serves what it should.

    Raises:
        StepFailed: it does not.
    """
    launched = Launched(
        invocation=serving.invocation, restarts=serving.restarts, started=serving.started
    )
    serving.kind = ask(run, "wait-healthy", version, launched=launched, address=serving.address)
    run.log(f"serving {version}, answers as {serving.kind}")
    return serving


def longest(history: History) -> dict[str, float]:
    """Return how long each stage has ever taken, in seconds."""
    return {stage: took for stage in STAGES if (took := history.longest(stage)) is not None}


def _watching(run: Redeployment, launched: Launched) -> dict[str, Any]:
    of_this = {"invocation": launched.invocation, "started": launched.started}
    return {**watching(run.service), **of_this}


def watching(service: Service) -> dict[str, Any]:
    """Return what the supervisor has to know to follow any start of a service."""
    return {
        "unit": service.unit,
        "environment": service.environment,
        "port": service.port,
        "deadline_seconds": service.start_deadline_seconds,
        "limits": service.stage_limits,
        "stall_floor_seconds": service.stall_seconds,
        "restarts_tolerated": service.restarts_tolerated,
        "lines": LAST_LINES,
    }


def _steady(run: Redeployment, launched: Launched, serving: Serving) -> str:
    """See it go on for the service's steady time, and return its heartbeat over that time."""
    seconds = run.service.steady_seconds
    with run.reached(serving.address) as base_url:
        before = metrics.read(base_url)
        LIVE.info("answers as %s; it has to go on for %d s", serving.kind, seconds)
        _hold(run, launched, seconds, "hold")
        return metrics.beat(before, metrics.read(base_url))


def _hold(run: Redeployment, launched: Launched, seconds: float, operation: str) -> None:
    """See on the host that the service goes on; its end is this step's failure."""
    run.do(
        "wait-healthy",
        "hold",
        {
            **_watching(run, launched),
            "restarts_tolerated": launched.restarts,
            "seconds": seconds,
        },
        operation=operation,
        deadline_seconds=seconds + _MARGIN_SECONDS,
    )


def ask(
    run: Redeployment,
    step_name: str,
    version: str,
    *,
    patience: float | None = None,
    launched: Launched | None = None,
    address: str = LOOPBACK,
) -> Kind:
    """Ask the service itself whether it serves what it should, and return what it answers.

    Args:
        run: the redeploy.
        step_name: the step that asks.
        version: what the service must say it is.
        patience: how long to ask at most, in seconds; None: as the settings say.
        launched: the start that is asked; when it has died, asking ends.
        address: where the service listens on its host.

    Raises:
        StepFailed: it does not, or not in time.
    """
    service = run.service
    longest_silence = service.grace_seconds  # a host that hears nothing for longer goes back
    patience = min(patience or Settings().ready_patience_seconds, longest_silence)
    wanted = Wanted(version, service.served_model, run.kind, service.api_key)
    with run.reached(address) as base_url:
        try:
            return wait_until_ready(
                base_url, wanted, link=lambda: _lives(run, launched), patience=patience
            )
        except NotReady as error:
            raise StepFailed(
                step_name, "not-ready", f"{service.unit} does not serve as asked: {error}."
            ) from error


def standing(run: Redeployment, invocation: str | None, restarts: int) -> dict[str, Any]:
    """Return how an invocation stands: `died`, the `address` it listens on, and `others` there.

    Args:
        run: the redeploy.
        invocation: which start of the unit.
        restarts: how often systemd has restarted it; once more is a death.
    """
    service = run.service
    asked = {
        "unit": service.unit,
        "invocation": invocation,
        "port": service.port,
        "restarts_tolerated": restarts,
    }
    return run.supervisor.call("alive", asked)


def in_words(others: list[dict[str, Any]]) -> str:
    """Return who else listens on the service's port."""
    return ", ".join(f"{one['pid']} ({one['command']}) on {one['address']}" for one in others)


def _lives(run: Redeployment, launched: Launched | None) -> None:
    """Prove the link to the host, and that the start lives and nobody listens in its place."""
    if launched is None:
        run.supervisor.call("version", {})
        return
    stands = standing(run, launched.invocation, launched.restarts)
    if stands["died"]:
        raise NotReady(f"it has {stands['died']}")
    if stands["others"]:
        raise NotReady(f"another process listens in its place: {in_words(stands['others'])}")
