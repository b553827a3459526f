"""How far a start has come, read from one line that vLLM wrote.

What the lines of several workers and of several starts say together: see `progress.py`.
Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from tasks.startup.lines import Line, split

LAUNCHED, IMPORTED, STARTING_ENGINE = "launched", "imported", "starting engine"
LOADING_WEIGHTS, WEIGHTS_LOADED = "loading weights", "weights loaded"
COMPILING, KV_CACHE, WARM_UP, GRAPHS = "compiling", "KV cache", "warm-up", "graphs"
ENGINE_UP, STARTING_SERVER = "engine up", "starting server"
LISTENING, READY = "listening", "ready"

STAGES = (
    LAUNCHED,
    IMPORTED,
    STARTING_ENGINE,
    LOADING_WEIGHTS,
    WEIGHTS_LOADED,
    COMPILING,
    KV_CACHE,
    WARM_UP,
    GRAPHS,
    ENGINE_UP,
    STARTING_SERVER,
    LISTENING,
    READY,
)
"""The stages of a start, in order. No line leads to "ready": that is asked, not read."""

UNKNOWN = "loading"
"""The stage where the lines have shapes that are not known."""


class Observation(NamedTuple):
    """What one line says about the start; `cache` is "cold" or "warm" where code is compiled."""

    stage: str
    detail: str
    percent: float | None = None
    rate: str | None = None
    seconds_left: float | None = None
    cache: str | None = None


_LONGEST_DETAIL = 200
_BELIEVED = ("INFO", "WARNING", "DEBUG")
_AMOUNT = r"\d+(?:\.\d+)?[kMGT]?i?B?"
_BAR = re.compile(
    r"(?P<percent>\d{1,3})%(?: Completed)? ?\|(?:[^|/\[]*\|)? *"
    rf"(?P<done>{_AMOUNT})/(?P<total>{_AMOUNT}) "
    r"\[(?P<spent>[\d:]+)<(?P<left>[\d:?]+)(?:, *(?P<rate>[^\],]+))?"
)
_BAR_STAGES = (
    (re.compile(r"Capturing CUDA graph"), GRAPHS, " graphs"),
    (re.compile(r"(?i)[\w ]{0,40}warm-?up"), WARM_UP, " kernels"),
    (re.compile(r"(?i)(?:multi-thread )?loading [\w ]*shards"), LOADING_WEIGHTS, " shards"),
    (re.compile(r"(?i)loading [\w ]*(?:safetensors|tensors|weights)"), LOADING_WEIGHTS, ""),
)

_Describe = Callable[["re.Match[str]"], str]


def _as_printed(match: re.Match[str]) -> str:
    return match.group(0).rstrip(". ")[:_LONGEST_DETAIL]


def _say(template: str) -> _Describe:
    return lambda match: match.expand(template)[:_LONGEST_DETAIL]


_LINES: tuple[tuple[re.Pattern[str], str, _Describe, str | None], ...] = tuple(
    (re.compile(pattern), stage, describe, cache)
    for pattern, stage, describe, cache in (
        (r"vLLM (?:API )?server version (\S+)", IMPORTED, _say(r"vLLM \1"), None),
        (r"\W+version (\d\S*)$", IMPORTED, _say(r"vLLM \1"), None),
        (r"non-default args: ", IMPORTED, _say("reading its arguments"), None),
        (r"Resolved architecture: \S+", IMPORTED, _as_printed, None),
        (
            r"Initializing an? (?:V\d )?LLM engine \(v?([^)]*)\)",
            STARTING_ENGINE,
            _say(r"engine \1"),
            None,
        ),
        (
            r"Starting to load model (\S+?)(?:\.\.\.|$)",
            LOADING_WEIGHTS,
            _say(r"starting on \1"),
            None,
        ),
        (r"Time spent downloading weights for .*", LOADING_WEIGHTS, _as_printed, None),
        (r"Loading drafter model", LOADING_WEIGHTS, _say("draft model"), None),
        (r"Loading (?:model )?weights took .*", WEIGHTS_LOADED, _as_printed, None),
        (r"Model loading took .*", WEIGHTS_LOADED, _as_printed, None),
        (r"Using cache directory: \S+ for vLLM's torch\.compile", COMPILING, _as_printed, None),
        (r"Dynamo bytecode transform time: .*", COMPILING, _as_printed, None),
        (r"Cache the graph .*for later use", COMPILING, _as_printed, "cold"),
        (r"Compiling a graph for .* takes .*", COMPILING, _as_printed, "cold"),
        (r"saved AOT compiled function to", COMPILING, _say("compiled code saved"), "cold"),
        (
            r"Compiling model again due to a load failure",
            COMPILING,
            _say("compiled code in cache could not be loaded"),
            "cold",
        ),
        (
            r"Directly load (?:AOT compilation|the compiled graph)",
            COMPILING,
            _say("compiled code found in cache"),
            "warm",
        ),
        (r"torch\.compile (?:took|takes) .* in total", COMPILING, _as_printed, None),
        (r"Initial profiling/warmup run took .*", COMPILING, _as_printed, None),
        (r"Profiling CUDA graph memory", KV_CACHE, _say("measuring memory"), None),
        (r"Available KV cache memory: .*", KV_CACHE, _as_printed, None),
        (r"(?:Explicitly|Auto) set \S+ GiB for KV cache", KV_CACHE, _as_printed, None),
        (r"[GC]PU KV cache size: [\d,]+ tokens", KV_CACHE, _as_printed, None),
        (r"# GPU blocks: \d+", KV_CACHE, _as_printed, None),
        (r"Warming up .*", WARM_UP, _as_printed, None),
        (r"\[Autotuner\]: Autotuning process starts", WARM_UP, _say("tuning kernels"), None),
        (r"Capturing cudagraphs for decoding", GRAPHS, _say("capturing"), None),
        (r"Graph capturing finished.*", GRAPHS, _as_printed, None),
        (
            r"init engine \(profile, create kv cache, warmup model\) took .*",
            ENGINE_UP,
            _as_printed,
            None,
        ),
        (r"Starting vLLM (?:API )?server.*", STARTING_SERVER, _as_printed, None),
        (r"Waiting for application startup", STARTING_SERVER, _as_printed, None),
        (
            r"Application startup complete",
            LISTENING,
            _say("application startup complete"),
            None,
        ),
        (r'\S+ - "(\w+ \S+) HTTP/[\d.]+" 200\b', LISTENING, _say(r"answered \1"), None),
    )
)


def observe(message: object) -> Observation | None:
    """Read one journal message.

    Given a message of the unit (text, bytes or the journal's list of numbers), with or without
    vLLM's prefixes, colours and carriage returns, return what it says about the start, or None.
    Of several progress updates in one message the last one counts. Only vLLM's own log lines and
    progress bars are believed: a line of level ERROR, a line of a traceback and a line of unknown
    shape say nothing. "listening" is written a moment before the socket listens, and "ready"
    never comes from here.
    """
    for line in reversed(split(message)):
        found = observe_line(line)
        if found is not None:
            return found
    return None


def observe_line(line: Line) -> Observation | None:
    """Read one line that has been taken apart."""
    if not line.level:
        return _observe_bar(line.text.strip())
    if line.level not in _BELIEVED:
        return None
    for pattern, stage, describe, cache in _LINES:
        match = pattern.match(line.text)
        if match:
            return Observation(stage, describe(match), cache=cache)
    return None


def order(stage: str) -> int:
    """Give the place of a stage in a start; an unknown one is no further than launched."""
    return STAGES.index(stage) if stage in STAGES else 0


def _observe_bar(text: str) -> Observation | None:
    for pattern, stage, things in _BAR_STAGES:
        if not pattern.match(text):
            continue
        bars = list(_BAR.finditer(text))
        if not bars:
            return None
        bar = bars[-1]
        rate = (bar.group("rate") or "").strip()
        return Observation(
            stage,
            "{}/{}{}".format(bar.group("done"), bar.group("total"), things),
            min(100.0, float(bar.group("percent"))),
            None if not rate or rate.startswith("?") else rate,
            _seconds(bar.group("left")),
        )
    return None


def _seconds(clock: str) -> float | None:
    """Read tqdm's [[HH:]MM:]SS; it prints a question mark when it does not know yet."""
    if "?" in clock:
        return None
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part or 0)
    return float(total)
