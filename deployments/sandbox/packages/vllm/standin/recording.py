"""Stand-in for tests; not the real vLLM: reads the log of a real start for replaying."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .process import PID, TIME

FOLDER = Path(__file__).with_name("recordings")
PREFIX = re.compile(
    r"^(?:\((?P<process>\w+(?:-\d+)?) pid=(?P<pid>\d+)\) ?)?"
    r"(?:(?P<level>[A-Z]+) (?P<time>\d\d-\d\d (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)) )?"
)
BAR = re.compile(r"^Loading .*Completed \|")
LAST_OF_START = "Application startup complete."


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


def load(name: str, new: Substitution) -> list[Line]:
    """Return the lines of a recording, with everything replaced that belongs to one run."""
    texts = (FOLDER / name).read_text(encoding="utf-8").split("\n")
    return list(_lines(texts, _replacements("\n".join(texts), new)))


def start(new: Substitution) -> list[Line]:
    """Return the lines of a good start, up to its last one."""
    lines = load("success.log", new)
    last = next(i for i, line in enumerate(lines) if LAST_OF_START in line.text)
    return lines[: last + 1]


def failure(name: str, new: Substitution) -> list[Line]:
    """Return the lines of a failed start from where it begins to fail."""
    lines = load(name, new)
    wrong = (
        i for i, line in enumerate(lines) if f"ERROR {TIME}" in line.text or _traceback(line.text)
    )
    return lines[next(wrong) :]


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
    found: dict[str, str] = {}
    if recorded := re.search(r"'host': '([^']+)', 'port': (\d+)", whole):
        host, port = recorded.groups()
        found[recorded[0]] = f"'host': '{new.host}', 'port': {new.port}"
        found[f"http://{host}:{port}"] = f"http://{new.host}:{new.port}"
    if recorded := re.search(r"█ +model +(\S+)$", whole, re.MULTILINE):
        found[recorded[1]] = new.model
    if recorded := re.search(r"█ +version (\S+)$", whole, re.MULTILINE):
        found[recorded[1]] = new.version
    if recorded := re.search(r"server process \[(\d+)\]", whole):
        found[f"[{recorded[1]}]"] = f"[{PID}]"
    return found


def _traceback(text: str) -> bool:
    return text.startswith("Traceback (most recent call last)")
