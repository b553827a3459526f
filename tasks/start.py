"""Start the service: its GPUs free, units reloaded, earlier failures forgotten."""

from typing import Any

from pydantic import BaseModel

from blocks.service import Service
from tasks.redeployment import Redeployment
from tasks.reinstall import Staged
from tasks.steps import step
from tasks.switch import previous_path

_TOLERANCE_BYTES = 512 * 1024**2
_MARGIN_SECONDS = 120


class Launched(BaseModel):
    """A start that systemd accepted: which invocation, and when (seconds since 1970).

    `restarts` are systemd's since then.
    """

    invocation: str
    restarts: int = 0
    started: float
    gpus_waited_seconds: float = 0


@step("start")
def start(run: Redeployment, gpu_baseline: dict[str, int]) -> Launched:
    """Start the unit for the first time in this redeploy.

    Args:
        run: the redeploy.
        gpu_baseline: what others hold of each GPU of this service, in bytes, by index.

    Raises:
        StepFailed: a GPU is still held, or systemd refused.
    """
    return launch(run, "start", gpu_baseline)


@step("start")
def swap(run: Redeployment, staged: Staged, gpu_baseline: dict[str, int]) -> Launched:
    """Stop the unit, switch the staged environment in, and start it: one operation of the host.

    Raises:
        StepFailed: the unit did not stop, the exchange failed, a GPU is still held, or systemd
            refused.
    """
    service = run.service
    waits = (service.stop_timeout_seconds, service.gpu_wait_seconds, _MARGIN_SECONDS)
    result = run.do(
        "start",
        "swap",
        {
            **starting(service, gpu_baseline),
            "environment": service.environment,
            "sibling": staged.sibling,
            "previous": previous_path(run),
        },
        operation="start",
        deadline_seconds=sum(waits),
    )
    run.log(f"{service.environment} is the new release; the old one: {previous_path(run)}")
    return Launched.model_validate(result)


def launch(run: Redeployment, step_name: str, gpu_baseline: dict[str, int]) -> Launched:
    """Have the unit started as an operation of some step."""
    result = run.do(
        step_name,
        "start",
        starting(run.service, gpu_baseline),
        operation="start",
        deadline_seconds=run.service.gpu_wait_seconds + _MARGIN_SECONDS,
    )
    return Launched.model_validate(result)


def starting(service: Service, gpu_baseline: dict[str, int]) -> dict[str, Any]:
    """Return what the supervisor has to know to start a service."""
    return {
        "unit": service.unit,
        "port": service.port,
        "baseline": gpu_baseline,
        "gpu_wait_seconds": service.gpu_wait_seconds,
        "tolerance_bytes": _TOLERANCE_BYTES,
    }
