"""One attempt: start, wait healthy; when it fails, find out why."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from tasks.diagnose import find_cause
from tasks.diagnosis.finding import Finding
from tasks.errors import StepFailed
from tasks.redeployment import Redeployment
from tasks.reinstall import Staged
from tasks.restart import restart
from tasks.start import Launched, start, swap
from tasks.wait_healthy import Serving, wait_healthy


class AttemptFailed(StepFailed):
    """A start that failed, and what diagnosis found.

    Attributes:
        finding: the diagnosis.
    """

    def __init__(self, failure: StepFailed, finding: Finding) -> None:
        super().__init__(
            failure.step, failure.kind, failure.message, hint=failure.hint, **failure.fields
        )
        self.failure = failure
        self.finding = finding

    def __reduce__(self) -> tuple[Any, ...]:
        return AttemptFailed, (self.failure, self.finding)


@flow(name="attempt", flow_run_name="{name}", persist_result=False)
def attempt(
    number: int,
    name: str,
    version: str,
    gpu_baseline: dict[str, int],
    staged: Staged | None = None,
) -> State[Serving]:
    """Start the service and follow it until it serves or has failed.

    Args:
        number: which attempt this is, from 1.
        name: the run's name on the page, `attempt 1` or `attempt 1 (replayed)`.
        version: what the service must say it is.
        gpu_baseline: what others hold of each GPU of this service, in bytes, by index.
        staged: what the first start is to exchange the old environment with, if it still serves.

    Returns:
        A completed state's data is how it serves, a failed one's the `AttemptFailed`, or, where the
        service was not stopped, why not.
    """
    run = Redeployment.current()
    launched: Launched | None = None
    with run.in_phase(f"attempt-{number}"):
        try:
            if number > 1:
                launched = restart(run, gpu_baseline)
            elif staged is None:
                launched = start(run, gpu_baseline)
            else:
                launched = swap(run, staged, gpu_baseline)
            serving = wait_healthy(run, launched, version)
        except StepFailed as failure:
            if not run.has_stopped():  # the journal tells of the old release
                return Failed(message=f"{failure.step}: {failure.message}", data=failure)
            finding = find_cause(run, failure, launched)
            return Failed(
                message=f"{failure.step}: {failure.message} {finding.explanation}",
                data=AttemptFailed(failure, finding),
            )
    return Completed(message=f"{name}: serving {version}.", data=serving)
