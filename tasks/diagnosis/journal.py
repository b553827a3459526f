"""What a service wrote, whoever kept it: one line an entry, oldest first.

Every reader is total: what it cannot read becomes an entry with the text it found.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from tasks.diagnosis.sieve import Sieve

_EXCEPTION = re.compile(r"[\w. ()=:/\[\]-]{0,200}?\b\w*(?:Error|Exception|Interrupt|Exit)\b")
_MOST_ENTRIES = 60_000
_LONGEST_HEAD = 600
_LONGEST_LINE = 1 << 15
_MOST_LINES = 2000
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]{0,1000}\x07|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SHORT_ISO = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) (?P<host>\S+) "
    r"(?P<identifier>[^\s\[\]]{1,120}?)(?:\[(?P<pid>\d{1,9})\])?: "
)


@dataclass(frozen=True)
class Entry:
    """One line of a journal.

    Attributes:
        number: its place in what was read, from 1.
        message: the text, without colours and control characters.
        time: seconds since 1970, where it is known.
        pid: the process that wrote it; of inherited output, the one that opened it.
        comm: that process's command.
        identifier: the name it is listed under, `vllm`, `systemd`, `kernel`.
        unit: the systemd unit.
        invocation: which start of the unit.
    """

    number: int
    message: str
    time: float | None = None
    pid: int | None = None
    comm: str | None = None
    identifier: str | None = None
    unit: str | None = None
    invocation: str | None = None


def from_supervisor(entries: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Read what the supervisor's `journal` verb gives (docs/supervisor.md)."""
    return [
        entry
        for number, raw in enumerate(entries, start=1)
        for entry in _lines(
            number,
            _text(raw.get("message")),
            time=raw.get("time"),
            pid=_number(raw.get("pid")),
            comm=raw.get("comm"),
            identifier=raw.get("identifier"),
            unit=raw.get("unit"),
            invocation=raw.get("invocation"),
        )
    ]


def from_json(text: str) -> list[Entry]:
    """Read `journalctl -o json`: one object a line, MESSAGE a text or a list of bytes."""
    lines = enumerate(text.split("\n"), start=1)
    return [entry for number, line in lines if line for entry in _of_json(number, line)]


def from_short_iso(text: str) -> list[Entry]:
    """Read `journalctl -o short-iso`; lines in another shape are taken as bare output."""
    lines = enumerate(text.split("\n"), start=1)
    return [entry for number, line in lines for entry in _of_text(number, line)]


def read(text: str) -> list[Entry]:
    """Read a journal in whichever shape it is, judged by its first lines."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    if first.startswith("{") and '"MESSAGE"' in text:
        return from_json(text)
    return from_short_iso(text)


def read_stream(stream: BinaryIO) -> tuple[list[Entry], int]:
    """Read what matters of a journal of any size and shape, in one pass.

    Returns:
        The entries, and how many lines there were.
    """
    sieve = Sieve(stream)
    found: list[Entry] = []
    for number, raw in sieve.lines():
        line = raw.decode(errors="replace")
        as_json = line.startswith("{") and line.rstrip().endswith("}")
        found += _of_json(number, line) if as_json else _of_text(number, line)
        if len(found) > _MOST_ENTRIES:
            del found[_MOST_ENTRIES // 2 : -_MOST_ENTRIES // 4]
    return found, sieve.lines_read


def _of_json(number: int, line: str) -> list[Entry]:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return _lines(number, line)
    return _from_journal_fields(number, raw) if isinstance(raw, dict) else []


def _of_text(number: int, line: str) -> list[Entry]:
    match = _SHORT_ISO.match(line[:_LONGEST_HEAD])
    if not match:
        return _lines(number, line)
    return _lines(
        number,
        line[match.end() :],
        time=_seconds(match["time"]),
        pid=_number(match["pid"]),
        identifier=match["identifier"],
    )


def _from_journal_fields(number: int, raw: Mapping[str, Any]) -> list[Entry]:
    stamp = _number(raw.get("__REALTIME_TIMESTAMP"))
    return _lines(
        number,
        _text(raw.get("MESSAGE")),
        time=None if stamp is None else stamp / 1e6,
        pid=_number(raw.get("_PID")),
        comm=raw.get("_COMM"),
        identifier=raw.get("SYSLOG_IDENTIFIER"),
        unit=raw.get("UNIT") or raw.get("_SYSTEMD_UNIT"),
        invocation=raw.get("INVOCATION_ID") or raw.get("_SYSTEMD_INVOCATION_ID"),
    )


def _lines(number: int, text: str, **fields: Any) -> list[Entry]:
    """Make the entries of one message: several lines in it, the last state of a progress bar.

    What names an exception is kept, whatever was written over it.
    """
    found = []
    if len(text) > 4 * _LONGEST_LINE:
        text = f"{text[: 2 * _LONGEST_LINE]} ... {text[-2 * _LONGEST_LINE :]}"
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    for line in text.split("\n")[:_MOST_LINES]:
        states = [state for state in line.split("\r") if state.strip()]
        telling = [state for state in states if _EXCEPTION.match(state[:2000])]
        message = " ".join(telling) or (states[-1] if states else "")
        if not message.isprintable():
            message = _CONTROL.sub("", message)
        found.append(Entry(number=number, message=message.rstrip()[:_LONGEST_LINE], **fields))
    return found


def _text(message: object) -> str:
    if isinstance(message, str):
        return message
    if isinstance(message, list):
        parts = (one if isinstance(one, int) and 0 <= one < 256 else ord("?") for one in message)
        return bytes(parts).decode(errors="replace")
    return ""


def _number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def _seconds(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None
