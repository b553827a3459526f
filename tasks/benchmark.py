"""Measure the new release with vLLM's own `vllm bench serve`, on the host."""

from typing import Any

from blocks.types import Kind
from tasks.redeployment import Redeployment
from tasks.steps import step

_MARGIN_SECONDS = 60

DIED = ("crashed", "exited", "gone", "hung", "rebooted")
"""Kinds of failure that are the service's own, not the measurement's."""


def can_be_measured(run: Redeployment, kind: Kind) -> bool:
    """Tell whether `vllm bench serve` has a measure for a service of this kind; else say so."""
    if kind in (Kind.EMBEDDING, Kind.RERANK):
        run.log(f"no benchmark: it measures generated tokens, and this service answers as {kind}")
        return False
    return True


@step("benchmark")
def benchmark(run: Redeployment) -> dict[str, Any]:
    """Return the JSON that `vllm bench serve` wrote.

    Raises:
        StepFailed: a request failed or was lost (vLLM itself only warns of that), or the service
            died or hung under it: then the kind is one of `DIED`.
    """
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
    result = run.do(
        "benchmark",
        "benchmark",
        arguments,
        deadline_seconds=service.benchmark.deadline_seconds + _MARGIN_SECONDS,
        secrets={"OPENAI_API_KEY": service.api_key} if service.api_key else None,
    )
    run.log(
        f"{result['completed']} requests, {result['output_throughput']:.0f} tokens/s, "
        f"median TTFT {result['median_ttft_ms']:.1f} ms"
    )
    return result
