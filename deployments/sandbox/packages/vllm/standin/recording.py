"""Stand-in for tests; not the real vLLM: reads the log of a real start for replaying."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from .process import PID, TIME

FOLDER = Path(__file__).with_name("recordings")
PREFIX = re.compile(
    r"^(?:\((?P<process>\w+(?:-\d+)?) pid=(?P<pid>\d+)\) ?)?"
    r"(?:(?P<level>[A-Z]+) (?P<time>\d\d-\d\d (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)) )?"
)
GENERATING_ROUTE = re.compile(r"Route: /(inference/|v1/(chat|completions|messages|responses))")
BAR = re.compile(r"^Loading .*Completed \|")
LAST_OF_START = "Application startup complete."
SHARDS = int(os.environ.get("VLLM_STANDIN_SHARDS", "16"))
WEIGHTS_SHARE = 0.5
"""How much of a start goes by with weights: the recorded model is too small to take any time."""


@dataclass(frozen=True)
class Line:
    """One line: seconds since the first one, who wrote it (`api`, `engine`, `worker`), its text."""

    at: float
    role: str
    text: str
    end: str = "\n"


@dataclass(frozen=True)
class Substitution:
    """What a replay puts in place of the recorded version, model and address."""

    version: str
    model: str
    host: str
    port: int
    tasks: tuple[str, ...] = ("generate",)


def load(name: str, new: Substitution) -> list[Line]:
    """Return the lines of a recording, with everything replaced that belongs to one run."""
    texts = (FOLDER / name).read_text(encoding="utf-8").split("\n")
    return list(_lines(texts, _replacements("\n".join(texts), new)))


def start(new: Substitution, seconds: float) -> list[Line]:
    """Return the lines of a good start, up to its last one, spread over so many seconds."""
    lines = [line for line in load("success.log", new) if _is_served(line.text, new.tasks)]
    lines = lines[: 1 + next(i for i, line in enumerate(lines) if LAST_OF_START in line.text)]
    first, *_, last = (i for i, line in enumerate(lines) if BAR.match(line.text))
    scale = seconds * (1 - WEIGHTS_SHARE) / max(lines[-1].at, 1.0)
    began, took = lines[first].at * scale, seconds * WEIGHTS_SHARE
    return [
        *(replace(line, at=line.at * scale) for line in lines[: first - 1]),
        *_bars(began, took),
        *(replace(line, at=line.at * scale + took) for line in lines[last + 1 :]),
    ]


def failure(name: str, new: Substitution) -> list[Line]:
    """Return the lines of a failed start from where it begins to fail."""
    lines = load(name, new)
    wrong = (
        i for i, line in enumerate(lines) if f"ERROR {TIME}" in line.text or _traceback(line.text)
    )
    return lines[next(wrong) :]


def _bars(began: float, took: float) -> Iterator[Line]:
    """Yield the progress of loading the weights, in the real one's words."""
    for done in range(SHARDS + 1):
        at = took * done / SHARDS
        pace = f"{_clock(at)}<{_clock(took - at)}, {_rate(done / at)}" if at else "00:00<?, ?it/s"
        text = f"Loading safetensors checkpoint shards: {100 * done / SHARDS:3.0f}% Completed"
        yield Line(began + at, "worker", "", "\r")
        yield Line(began + at, "worker", f"{text} | {done}/{SHARDS} [{pace}]")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _rate(rate: float) -> str:
    return f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"


def _is_served(text: str, tasks: tuple[str, ...]) -> bool:
    """Tell whether a line about a route is true of a model with these tasks."""
    return "generate" in tasks or not GENERATING_ROUTE.search(text)


def _lines(texts: list[str], replacements: dict[str, str]) -> Iterator[Line]:
    now = first = None
    in_engine_traceback = False
    for i, text in enumerate(texts):
        if text == "" and i + 1 < len(texts) and BAR.match(texts[i + 1]):
            yield Line(now or 0.0, "worker", "", "\r")
            continue
        found = PREFIX.match(text)
        if found and found["time"]:
            clock = int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"])
            first = clock if first is None else first
            now = float(clock - first)
        if text.startswith("Process EngineCore"):
            in_engine_traceback = True
        elif text.startswith(("(", "INFO:")) or "/bin/vllm" in "".join(texts[i : i + 2]):
            in_engine_traceback = False
        role = "engine" if in_engine_traceback else _role(texts, i)
        yield Line(now or 0.0, role, _replaced(text, replacements))


def _role(texts: list[str], i: int) -> str:
    """Return who wrote a line: its own prefix says so, else the next line that has one."""
    for text in texts[i:]:
        found = PREFIX.match(text)
        if found and found["process"]:
            return _role_of(found["process"])
        if "/bin/vllm" in text or text.startswith("INFO:"):
            return "api"
        if text.startswith("Process EngineCore"):
            return "engine"
    return "api"


def _role_of(process: str) -> str:
    if process.startswith("APIServer"):
        return "api"
    return "engine" if process.startswith("EngineCore") else "worker"


def _replaced(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    text = re.sub(r"(?<=pid=)\d+(?=\))", PID, text)
    return re.sub(r"(?<=[A-Z] )\d\d-\d\d \d\d:\d\d:\d\d(?= \[)", TIME, text)


def _replacements(whole: str, new: Substitution) -> dict[str, str]:
    found = {"Supported tasks: ['generate']": f"Supported tasks: {list(new.tasks)}"}
    if recorded := re.search(r"'host': '([^']+)', 'port': (\d+)", whole):
        host, port = recorded.groups()
        found[recorded[0]] = f"'host': '{new.host}', 'port': {new.port}"
        shown = f"[{new.host}]" if ":" in new.host else new.host
        found[f"http://{host}:{port}"] = f"http://{shown}:{new.port}"
    if recorded := re.search(r"█ +model +(\S+)$", whole, re.MULTILINE):
        found[recorded[1]] = new.model
    if recorded := re.search(r"█ +version (\S+)$", whole, re.MULTILINE):
        found[recorded[1]] = new.version
    if recorded := re.search(r"server process \[(\d+)\]", whole):
        found[f"[{recorded[1]}]"] = f"[{PID}]"
    return found


def _traceback(text: str) -> bool:
    return text.startswith("Traceback (most recent call last)")
