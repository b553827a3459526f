"""Stand-in for tests; not the real vLLM: what is under way, and how `/metrics` tells it."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ... import __version__

BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
REASONS = ("stop", "length", "abort")
RENAMED_IN = os.environ.get("VLLM_STANDIN_METRICS_RENAMED_IN", "")
"""The first version with the present names; an older one has two that are gone since."""

NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:rc(\d+))?(?:\.dev(\d+))?")


class Stats:
    """Counts requests and tokens; of a hung engine the last state stays for ever."""

    def __init__(self, model_name: str, max_num_seqs: int) -> None:
        """Begin with nothing under way."""
        self.model_name = model_name
        self.max_num_seqs = max_num_seqs
        self.slots = threading.Semaphore(max_num_seqs)
        self.lock = threading.Lock()
        self.under_way: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.steps: Counter[int] = Counter()
        self.last_words: str | None = None

    @contextmanager
    def request(self, admit: Callable[[], None]) -> Iterator[None]:
        """Be a request: one that waits until there is room and it is admitted, then runs."""
        place = "waiting"
        self._move(None, place)
        try:
            with self.slots:
                admit()
                self._move(place, "running")
                place = "running"
                yield
        finally:
            self._move(place, None)

    def step(self, prompt: int = 0, generated: int = 0) -> None:
        """Count one step of the engine."""
        with self.lock:
            self.tokens["prompt"] += prompt
            self.tokens["generation"] += generated
            self.steps[prompt + generated] += 1

    def succeeded(self, reason: str) -> None:
        """Count a request that ended well."""
        with self.lock:
            self.finished[reason] += 1

    def freeze(self) -> None:
        """Say from now on what was true last, as nobody hears from a hung engine."""
        self.last_words = self.text()

    def text(self) -> str:
        """Return all metrics in Prometheus' format."""
        if self.last_words is not None:
            return self.last_words
        with self.lock:
            running, waiting = self.under_way["running"], self.under_way["waiting"]
            usage = running / self.max_num_seqs
            return "".join(
                (
                    self._metric("num_requests_running", "gauge", {"": running}),
                    self._metric("num_requests_waiting", "gauge", {"": waiting}),
                    *self._cache(usage),
                    *(
                        self._metric(f"{kind}_tokens_total", "counter", {"": self.tokens[kind]})
                        for kind in ("prompt", "generation")
                    ),
                    self._metric(
                        "request_success_total",
                        "counter",
                        {f'finished_reason="{one}",': self.finished[one] for one in REASONS},
                    ),
                    self._histogram("iteration_tokens_total"),
                )
            )

    def _move(self, before: str | None, after: str | None) -> None:
        with self.lock:
            if before:
                self.under_way[before] -= 1
            if after:
                self.under_way[after] += 1

    def _cache(self, usage: float) -> Iterator[str]:
        if is_older(__version__, RENAMED_IN):
            yield self._metric("gpu_cache_usage_perc", "gauge", {"": usage})
            yield self._metric("cpu_cache_usage_perc", "gauge", {"": 0})
        else:
            yield self._metric("kv_cache_usage_perc", "gauge", {"": usage})

    def _metric(self, name: str, kind: str, values: dict[str, float]) -> str:
        samples = "".join(self._sample(name, more, value) for more, value in values.items())
        return f"# TYPE vllm:{name} {kind}\n{samples}"

    def _histogram(self, name: str) -> str:
        below = {
            f'le="{bucket:.1f}",': sum(n for size, n in self.steps.items() if size <= bucket)
            for bucket in BUCKETS
        }
        total = sum(self.steps.values())
        return (
            f"# TYPE vllm:{name} histogram\n"
            + self._sample(f"{name}_sum", "", sum(size * n for size, n in self.steps.items()))
            + "".join(self._sample(f"{name}_bucket", le, n) for le, n in below.items())
            + self._sample(f"{name}_bucket", 'le="+Inf",', total)
            + self._sample(f"{name}_count", "", total)
        )

    def _sample(self, name: str, more: str, value: float) -> str:
        labels = f'engine="0",{more}model_name="{self.model_name}"'
        return f"vllm:{name}{{{labels}}} {float(value)!r}\n"


def is_older(version: str, than: str) -> bool:
    """Tell whether a version comes before another; none comes before what is no version."""
    one, other = numbers(version), numbers(than)
    return bool(one and other) and one < other


def numbers(version: str) -> tuple[float, ...]:
    """Return what orders a version: a release comes after its candidates and nightlies."""
    found = NUMBERS.match(version)
    return tuple(float(part) if part else float("inf") for part in found.groups()) if found else ()
