"""Wait until the service serves, or its start has failed. Progress is judged on the host."""

from typing import Any

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from pydantic import BaseModel

from tasks.artifacts import best_effort, key
from tasks.errors import StepFailed
from tasks.readiness import NotReady, wait_until_ready
from tasks.redeployment import Redeployment
from tasks.start import Launched
from tasks.steps import step

_MARGIN_SECONDS = 120
LAST_LINES = 80
LOOPBACK = "127.0.0.1"


class StageTime(BaseModel):
    """A stage of the start: when it began after the launch and how long it took, in seconds."""

    name: str
    at: float
    seconds: float | None = None


class Serving(BaseModel):
    """A start that serves."""

    stages: list[StageTime] = []
    listening_after_seconds: float
    address: str = LOOPBACK


@step("wait-healthy")
def wait_healthy(run: Redeployment, launched: Launched, version: str) -> Serving:
    """Follow the start on the host, then ask the service itself.

    Args:
        run: the redeploy.
        launched: the start to follow.
        version: what the service must say it is.

    Raises:
        StepFailed: it crashed, left, hung past the deadline, or is not what was asked for.
    """
    service = run.service
    result = run.do(
        "wait-healthy",
        "watch",
        _watching(run, launched),
        deadline_seconds=service.start_deadline_seconds + _MARGIN_SECONDS,
        on_progress=_Shown(run),
    )
    serving = Serving.model_validate(result)
    try:
        ask(run, "wait-healthy", version, launched=launched, address=serving.address)
    except StepFailed:
        _hold(run, launched, 0)  # a service that died is what failed, not its answer
        raise
    _hold(run, launched, service.steady_seconds)
    run.log(f"serving {version} after {serving.listening_after_seconds:.1f} s")
    return serving


def _watching(run: Redeployment, launched: Launched) -> dict[str, Any]:
    return {
        "unit": run.service.unit,
        "invocation": launched.invocation,
        "started": launched.started,
        "port": run.service.port,
        "deadline_seconds": run.service.start_deadline_seconds,
        "lines": LAST_LINES,
    }


def _hold(run: Redeployment, launched: Launched, seconds: float) -> None:
    """See on the host that the service goes on; its end is this step's failure."""
    run.do(
        "wait-healthy",
        "hold",
        {**_watching(run, launched), "seconds": seconds},
        operation="hold" if seconds else "look",
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
) -> None:
    """Ask the service itself whether it serves what it should.

    Args:
        run: the redeploy.
        step_name: the step that asks.
        version: what the service must say it is.
        patience: how long to ask, in seconds; None: as the settings say.
        launched: the start that is asked; when it has died, asking ends.
        address: where the service listens on its host.

    Raises:
        StepFailed: it does not, or not in time.
    """
    service = run.service
    with run.host.tunnel(service.port, address) as local_port:
        try:
            wait_until_ready(
                f"http://127.0.0.1:{local_port}",
                version=version,
                model=service.served_model,
                api_key=service.api_key,
                link=lambda: _lives(run, launched),
                patience=patience,
            )
        except NotReady as error:
            raise StepFailed(
                step_name, "not-ready", f"{service.unit} does not serve as asked: {error}."
            ) from error


def standing(run: Redeployment, invocation: str | None) -> dict[str, Any]:
    """Return how an invocation stands: `died`, and the `address` it listens on."""
    service = run.service
    asked = {"unit": service.unit, "invocation": invocation, "port": service.port}
    return run.supervisor.call("alive", asked)


def _lives(run: Redeployment, launched: Launched | None) -> None:
    """Prove the link to the host, and that the start has not died meanwhile."""
    if launched is None:
        run.supervisor.call("version", {})
        return
    died = standing(run, launched.invocation)["died"]
    if died:
        raise NotReady(f"it has {died}")


class _Shown:
    """Shows the start's progress as a line in the log and a progress artifact."""

    def __init__(self, run: Redeployment) -> None:
        self._run = run
        self._stage = ""
        self._artifact: Any = None

    def __call__(self, progress: dict[str, Any]) -> None:
        """Show one progress of the supervisor."""
        stage, percent = str(progress.get("stage", "")), progress.get("percent")
        if stage and stage != self._stage:
            self._run.log(f"{progress.get('elapsed', 0):.0f} s: {stage}")
            self._stage = stage
        if percent is None:
            return
        with best_effort(self._run, "the progress"):
            self._publish(float(percent), stage)

    def _publish(self, percent: float, stage: str) -> None:
        if self._artifact is None:
            name = key(self._run, "start-up")
            self._artifact = create_progress_artifact(percent, key=name, description=stage)
        else:
            update_progress_artifact(self._artifact, percent, description=stage)
