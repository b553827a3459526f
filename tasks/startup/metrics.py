"""Reads vLLM's metrics: what vanished with a new version, and whether it works, idles or hangs.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(
    r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)"
    r"(?:\{(?P<labels>(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\})?"
    r"[ \t]+(?P<value>[^\s#]+)"
)
_LABEL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=\"((?:[^\"\\]|\\.)*)\"")
_ESCAPE = re.compile(r"\\(.)")
_LONGEST_LINE = 8192
_PREFIX = "vllm:"

_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


@dataclass(frozen=True)
class Value:
    """One value, with its labels sorted by name."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def label(self, name: str) -> str:
        """Return a label's value; "" where there is none."""
        return dict(self.labels).get(name, "")


@dataclass(frozen=True)
class Metrics:
    """One reading: its samples, and what kind each declared metric is."""

    samples: tuple[Value, ...]
    kinds: Mapping[str, str]

    def names(self) -> set[str]:
        """Return the metrics' names: a histogram once, a counter by its samples' name.

        A metric that is declared and has no sample yet counts; a `_created` stamp does not.
        """
        found = {self._family(sample.name) for sample in self.samples}
        for name, kind in self.kinds.items():
            declared_bare = kind == "counter" and name not in found  # as OpenMetrics does
            found.add(f"{name}_total" if declared_bare and not name.endswith("_total") else name)
        return {name for name in found if name and not name.endswith("_created")}

    def _family(self, name: str) -> str:
        if name.endswith("_created"):
            return ""
        for suffix in ("_bucket", "_sum", "_count"):
            family = name[: -len(suffix)] if name.endswith(suffix) else ""
            if suffix in _SUFFIXES.get(self.kinds.get(family, ""), ()):
                return family
        return name


def parse(text: str) -> Metrics:
    """Read Prometheus' text format, or OpenMetrics'; what is no sample is passed over."""
    samples, kinds = [], {}
    for line in text.splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        if line.startswith("# TYPE "):
            _, _, *rest = line.split()
            if len(rest) == 2:
                kinds[rest[0]] = rest[1]
            continue
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match.group("value"))
        except ValueError:
            continue
        pairs = _LABEL.findall(match.group("labels") or "")
        labels = tuple(sorted((name, _unescape(value)) for name, value in pairs))
        samples.append(Value(match.group("name"), labels, value))
    return Metrics(tuple(samples), kinds)


_RENAMED = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_queries": "vllm:prefix_cache_queries",
    "vllm:gpu_prefix_cache_hits": "vllm:prefix_cache_hits",
    "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
}


def vanished(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """List vLLM's metrics that were there before and are not now: alerts on them have gone dumb.

    Both are names as `Metrics.names` gives them.

    A counter is the same metric whether it is declared with `_total` or without, as long as its
    samples keep their name. Where the samples' name changed, an alert on it is as dead as if it
    had vanished; it is listed, with its new name: `vllm:a (now vllm:a_total)`. So are the renames
    of vLLM 0.9 and 0.11 that are known here.
    """
    old, new = _vllm(before), _vllm(after)
    return [
        f"{name} (now {other})" if (other := _successor(name, new)) else name
        for name in sorted(old - new)
    ]


_REQUESTS = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:num_requests_swapped")
_WORK = (
    "vllm:iteration_tokens_total_count",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:request_success_total",
)


def heartbeat(before: Metrics, after: Metrics, asked: bool = False) -> str:
    """Tell "working", "idle", "hung" or "unknown" from two readings some seconds apart.

    Requests: `vllm:num_requests_running` and `_waiting`, the same in the V0 and the V1 engine
    (V0 also has `_swapped`). Work: `vllm:iteration_tokens_total` (a histogram in spite of its
    name, whose count is the engine's steps), `vllm:generation_tokens_total`,
    `vllm:prompt_tokens_total` and `vllm:request_success_total`; embedding models have no
    generation, so any of them counts. Each engine (label `engine`) is judged by itself, so that
    a busy one does not hide a hung one.

    The request gauges are the engine's own last word. An engine that hung while it was idle
    still says zero, so "idle" is no proof of health: ask something in between and say `asked`;
    then nothing moving means "hung". One "hung" is a suspicion, since a long prompt may take
    longer than the pause; ask again before acting on it.

    Args:
        before: the earlier reading.
        after: the later one.
        asked: whether a request of ours was sent in between.
    """
    works, waits = _by_engine(after, _WORK), _by_engine(after, _REQUESTS)
    earlier = _by_engine(before, _WORK)
    if not works or not waits or works.keys() != earlier.keys():
        return "unknown"
    states = set()
    for engine, counters in works.items():
        moves = [counters[name] - earlier[engine].get(name, 0.0) for name in counters]
        if any(move < 0 for move in moves):
            return "unknown"  # it has been started again in between
        if any(move > 0 for move in moves):
            states.add("working")
        elif any(waits.get(engine, {}).values()):
            states.add("hung")
        else:
            states.add("idle")
    if asked and states == {"idle"}:
        return "hung"
    return next(state for state in ("hung", "working", "idle") if state in states)


def _vllm(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.startswith(_PREFIX)}


def _successor(name: str, new: set[str]) -> str | None:
    stem = name[: -len("_total")] if name.endswith("_total") else name
    renamed = _RENAMED.get(stem)
    others = [stem, f"{stem}_total"] + ([renamed, f"{renamed}_total"] if renamed else [])
    return next((other for other in others if other in new and other != name), None)


def _by_engine(metrics: Metrics, names: Iterable[str]) -> dict[str, dict[str, float]]:
    wanted = frozenset(names)
    found: dict[str, dict[str, float]] = {}
    for sample in metrics.samples:
        if sample.name in wanted:
            of_engine = found.setdefault(sample.label("engine"), {})
            of_engine[sample.name] = of_engine.get(sample.name, 0.0) + sample.value
    return found


def _unescape(value: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match.group(1) == "n" else match.group(1), value)
