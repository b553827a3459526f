"""Case files of starts: a log, and beside it what a person read in it."""

import datetime
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent.parent / "cases" / "startup"
_SHORT_ISO = re.compile(r"^(\d{4}-\S+) \S+ ([\w.-]+)(?:\[(\d+)\])?: (.*)$", re.DOTALL)
_OF_THE_UNIT = ("vllm", "systemd")


@dataclass(frozen=True)
class Case:
    """A log's entries by line number, as the journal gives them, and the expectations."""

    name: str
    entries: dict[int, dict[str, Any]]
    expected: dict[str, Any]


def case(name: str) -> Case:
    lines = (CASES / f"{name}.log").read_text().rstrip("\n").split("\n")
    entries = {number: _entry(number, line) for number, line in enumerate(lines, start=1)}
    return Case(
        name,
        {number: entry for number, entry in entries.items() if entry is not None},
        json.loads((CASES / f"{name}.json").read_text()),
    )


def names() -> list[str]:
    return sorted(log.stem for log in CASES.glob("*.log"))


def _entry(number: int, line: str) -> dict[str, Any] | None:
    match = _SHORT_ISO.match(line)
    if match is None:
        return {"time": float(number), "pid": None, "message": line}
    at, identifier, pid, message = match.groups()
    if identifier not in _OF_THE_UNIT:
        return None
    seconds = datetime.datetime.fromisoformat(at).timestamp()
    return {"time": seconds, "pid": int(pid), "message": message}
