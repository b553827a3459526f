"""Measure the new release with vLLM's own `vllm bench serve`, on the host."""

from typing import Any

from tasks.redeployment import Redeployment
from tasks.steps import POLICIES, step

DIED = ("crashed", "exited", "gone")
"""Kinds of failure that are the service's own, not the measurement's."""


@step("benchmark")
def benchmark(run: Redeployment) -> dict[str, Any]:
    """Return the JSON that `vllm bench serve` wrote.

    Raises:
        StepFailed: a request failed or was lost (vLLM itself only warns of that), or the service
            died under it: then the kind is one of `DIED`.
    """
    service = run.service
    arguments = {
        "environment": service.environment,
        "unit": service.unit,
        "timeout_seconds": POLICIES["benchmark"].deadline_seconds,
        "port": service.port,
        "model": service.served_model or service.model,
        "tokenizer": service.model,
        **service.benchmark.model_dump(),
    }
    result = run.do(
        "benchmark",
        "benchmark",
        arguments,
        deadline_seconds=POLICIES["benchmark"].deadline_seconds,
    )
    run.log(
        f"{result['completed']} requests, {result['output_throughput']:.0f} tokens/s, "
        f"median TTFT {result['median_ttft_ms']:.1f} ms"
    )
    return result
