"""Measure the new release with vLLM's own `vllm bench serve`, on the host."""

from typing import Any

from tasks.errors import StepFailed
from tasks.redeployment import Redeployment
from tasks.steps import step
from tasks.wait_healthy import ask

_MARGIN_SECONDS = 60

DIED = ("crashed", "exited", "gone", "not-ready")
"""Kinds of failure that are the service's own, not the measurement's."""


@step("benchmark")
def benchmark(run: Redeployment, version: str) -> dict[str, Any]:
    """Return the JSON that `vllm bench serve` wrote.

    Args:
        run: the redeploy.
        version: what the service must say it is.

    Raises:
        StepFailed: a request failed or was lost (vLLM itself only warns of that), or the service
            died under it, or no longer answers: then the kind is one of `DIED`.
    """
    try:
        result = _measure(run)
    except StepFailed as failure:
        if failure.kind not in DIED:
            ask(run, "benchmark", version)  # a hung engine still says that it is healthy
        raise
    run.log(
        f"{result['completed']} requests, {result['output_throughput']:.0f} tokens/s, "
        f"median TTFT {result['median_ttft_ms']:.1f} ms"
    )
    return result


def _measure(run: Redeployment) -> dict[str, Any]:
    service = run.service
    arguments = {
        "environment": service.environment,
        "unit": service.unit,
        "timeout_seconds": service.benchmark.deadline_seconds,
        "port": service.port,
        "model": service.served_model or service.model,
        "tokenizer": service.model,
        **service.benchmark.model_dump(exclude={"deadline_seconds"}),
    }
    deadline = service.benchmark.deadline_seconds + _MARGIN_SECONDS
    return run.do("benchmark", "benchmark", arguments, deadline_seconds=deadline)
