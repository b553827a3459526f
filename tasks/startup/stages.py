"""How far a start has come, read from one line that vLLM wrote.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

import re
from typing import Callable, NamedTuple, Optional

STAGES = (
    "booting",
    "engine",
    "loading weights",
    "compiling",
    "kv cache",
    "graphs",
    "warm-up",
    "listening",
    "serving",
)
"""The stages of a start, in order."""


class Observation(NamedTuple):
    """What one line says about the start."""

    stage: str
    detail: str
    percent: Optional[float] = None
    rate: Optional[str] = None
    seconds_left: Optional[float] = None


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_PROCESS = re.compile(r"^\([\w ./=-]*pid=\d+\)\s?")
_LEVEL = re.compile(
    r"^(?P<level>[A-Z]{4,8}) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:\[[^\]]*\] ?|\S+:\d+\] )"
)
_SILENT_LEVELS = ("ERROR", "CRITICAL")

_BAR = re.compile(
    r"(?P<percent>\d{1,3})%(?: Completed)? ?\|(?:[^|]*\|)? *(?P<done>\d+)/(?P<total>\d+) "
    r"\[(?P<spent>[\d:]+)<(?P<left>[\d:?]+)(?:, *(?P<rate>[^\],]+))?"
)
_BAR_STAGES = (
    (re.compile(r"Capturing CUDA graphs?"), "graphs", "graphs"),
    (re.compile(r"(?i)(?:\w+ )?warm-?up"), "warm-up", "kernels"),
    (re.compile(r"(?:Loading|Multi-thread loading) .*"), "loading weights", "shards"),
)

_Describe = Callable[["re.Match[str]"], str]


def _as_printed(match: "re.Match[str]") -> str:
    return match.group(0).rstrip(". ")


def _say(template: str) -> _Describe:
    return lambda match: match.expand(template)


# Matched at the start of the message, so that a traceback quoting such a text moves nothing.
_LINES = tuple(
    (re.compile(pattern), stage, describe)
    for pattern, stage, describe in (
        (r"vLLM (?:API )?server version (\S+)", "booting", _say(r"vLLM \1")),
        (r"\W+version (\d\S*)$", "booting", _say(r"vLLM \1")),
        (r"Resolved architecture: \S+", "booting", _as_printed),
        (r"Initializing a V1 LLM engine \(v?([^)]*)\)", "engine", _say(r"initializing engine \1")),
        (r"Starting to load model (\S+?)(?:\.\.\.|$)", "loading weights", _say(r"starting on \1")),
        (r"Loading weights took .*", "loading weights", _as_printed),
        (r"Model loading took .*", "loading weights", _as_printed),
        (r"Using cache directory: \S+ for vLLM's torch\.compile", "compiling", _as_printed),
        (r"Dynamo bytecode transform time: .*", "compiling", _as_printed),
        (
            r"Directly load AOT compilation from path",
            "compiling",
            _say("compiled code found in cache"),
        ),
        (r"torch\.compile (?:took|takes) .* in total", "compiling", _as_printed),
        (r"Available KV cache memory: .*", "kv cache", _as_printed),
        (r"[GC]PU KV cache size: [\d,]+ tokens", "kv cache", _as_printed),
        (r"Graph capturing finished.*", "graphs", _as_printed),
        (r"init engine \(profile, create kv cache, warmup model\) took .*", "warm-up", _as_printed),
        (r"Starting vLLM (?:API )?server.*", "listening", _as_printed),
        (r"INFO: +Application startup complete", "listening", _say("application startup complete")),
        (r'INFO: +\S+ - "(\w+ \S+) HTTP/[\d.]+" 200\b', "serving", _say(r"answered \1")),
    )
)


def observe(line: str) -> Optional[Observation]:
    """Read one journal line.

    Given a message of the unit, with or without vLLM's prefixes, colours and carriage returns,
    return what it says about the start, or None. Of several progress updates in one line the
    last one counts. "serving" needs an answered request: "Application startup complete." is
    written before the socket listens.
    """
    for part in reversed(re.split(r"[\r\n]+", _ANSI.sub("", line))):
        found = _observe_part(part)
        if found is not None:
            return found
    return None


def order(stage: str) -> int:
    """Give the place of a stage in a start, to keep the furthest one."""
    return STAGES.index(stage)


def _observe_part(part: str) -> Optional[Observation]:
    message = _PROCESS.sub("", part)
    level = _LEVEL.match(message)
    if level:
        if level.group("level") in _SILENT_LEVELS:
            return None
        message = message[level.end() :]
    return _observe_bar(message) or _observe_text(message)


def _observe_bar(message: str) -> Optional[Observation]:
    bars = list(_BAR.finditer(message))
    if not bars:
        return None
    bar = bars[-1]
    for pattern, stage, things in _BAR_STAGES:
        if pattern.match(message.lstrip()):
            rate = (bar.group("rate") or "").strip()
            return Observation(
                stage,
                "{}/{} {}".format(bar.group("done"), bar.group("total"), things),
                float(bar.group("percent")),
                None if not rate or rate.startswith("?") else rate,
                _seconds(bar.group("left")),
            )
    return None


def _observe_text(message: str) -> Optional[Observation]:
    for pattern, stage, describe in _LINES:
        match = pattern.match(message)
        if match:
            return Observation(stage, describe(match))
    return None


def _seconds(clock: str) -> Optional[float]:
    """Read tqdm's [[HH:]MM:]SS; it prints a question mark when it does not know yet."""
    if "?" in clock:
        return None
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part or 0)
    return float(total)
