"""What a journal message of vLLM holds: its lines, each with the process and the level it names.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST = 1 << 16


class Line(NamedTuple):
    """One line without its prefixes; `level` is empty where the line names none."""

    text: str
    process: str = ""
    pid: int | None = None
    level: str = ""


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_PROCESS = re.compile(r"\((?P<process>[\w ./=-]*?) ?\bpid=(?P<pid>\d{1,10})(?:, ip=[\w.:]+)?\)\s?")
_LEVELS = (
    re.compile(
        r"(?P<level>[A-Z]{4,8}) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? "
        r"(?:\[[^\]]*\] ?|[\w./-]+:\d+\] )"
    ),
    re.compile(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ - (?P<level>[A-Z]{4,8}) - [\w.]+:\d+ - [\w.]+: "
    ),
    re.compile(r"(?P<level>INFO|WARNING|ERROR|CRITICAL|DEBUG): {2,}"),
)
_IDLE_TALK = re.compile(
    r"No available shared memory broadcast block found in \d+ seconds"
    r"|Waiting for \d+ local, \d+ remote core engine proc"
    r"|Engine \d+: Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 "
)


def decode(message: object) -> str:
    """Return a journal message as text; the journal gives bytes or numbers for odd ones."""
    if isinstance(message, list):
        if message and all(isinstance(item, str) for item in message):
            message = "\n".join(message)
        else:
            message = bytes(n for n in message if isinstance(n, int) and 0 <= n < 256)
    if isinstance(message, bytes):
        message = message.decode("utf-8", "replace")
    return message[-LONGEST:] if isinstance(message, str) else ""


def split(message: object) -> list[Line]:
    """Return the lines of a message, oldest first; a progress bar's updates count as lines.

    A process that is named once is taken for the writer of the rest of the message.
    """
    lines = []
    process, pid = "", None
    for part in re.split(r"[\r\n]+", _ANSI.sub("", decode(message))):
        text = part
        while (match := _PROCESS.match(text)) is not None:
            process, pid = match.group("process"), int(match.group("pid"))
            text = text[match.end() :]
        level = ""
        for pattern in _LEVELS:
            match = pattern.match(text)
            if match:
                level, text = match.group("level"), text[match.end() :]
                break
        if text.strip():
            lines.append(Line(text, process, pid, level))
    return lines


def is_idle_talk(line: Line) -> bool:
    """Tell whether a line only says that vLLM waits: a hung start repeats it every minute."""
    return _IDLE_TALK.match(line.text) is not None
