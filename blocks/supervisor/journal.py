"""Reads the journal: a unit's own lines and what systemd said about it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from blocks.supervisor import commands, foreign, kernel_log, processes, scope
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

LONGEST_MESSAGE = 16384
LONGEST_ENTRY = 4 << 20
_REOPEN_SECONDS = 1.0
_LONGEST_RAW = 4 * LONGEST_MESSAGE


def message_text(value: Any) -> str:
    r"""Return a MESSAGE as clean text; it is a list of bytes when it held `\r` or colours."""
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            value = "\n".join(value)
        else:
            numbers = [item for item in value if isinstance(item, int) and 0 <= item < 256]
            value = bytes(numbers).decode("utf-8", "replace")
    text = value if isinstance(value, str) else ""
    return foreign.clean(text[:_LONGEST_RAW])[:LONGEST_MESSAGE]


def parse(line: str | bytes) -> dict[str, Any] | None:
    """Return one entry of `journalctl -o json`, or None if the line is none."""
    try:
        raw = json.loads(line)
    except ValueError:
        return None
    if not isinstance(raw, dict) or "__REALTIME_TIMESTAMP" not in raw:
        return None
    here = scope.now()
    about_unit, about_one = here.told
    return {
        "time": int(raw["__REALTIME_TIMESTAMP"]) / 1e6,
        "pid": _whole(raw.get("_PID")),
        "comm": _text(raw.get("_COMM")),
        "identifier": _text(raw.get("SYSLOG_IDENTIFIER")),
        "unit": _text(raw.get(about_unit)) or _text(raw.get(here.own)),
        "priority": _whole(raw.get("PRIORITY")),
        "invocation": _text(raw.get(about_one)) or _text(raw.get("_SYSTEMD_INVOCATION_ID")),
        "message": message_text(raw.get("MESSAGE")),
        "message_id": _text(raw.get("MESSAGE_ID")),
        "cursor": _text(raw.get("__CURSOR")),
    }


def matches(unit: str, invocation: str | None) -> tuple[str, ...]:
    """Return the matches for the lines of a unit, or of one of its invocations."""
    here = scope.now()
    about_unit, about_one = here.told
    if invocation:
        own, told = f"_SYSTEMD_INVOCATION_ID={invocation}", f"{about_one}={invocation}"
    else:
        own, told = f"{here.own}={unit}", f"{about_unit}={unit}"
    mine = () if here.user is None else (here.teller,)  # others may have a unit of that name
    return (own, *mine, "+", here.teller, told)


def journal(arguments: dict[str, Any], work: Work | None = None) -> dict[str, Any]:
    """Return the newest lines of a unit and the kernel's about it, oldest first, secrets hidden."""
    del work
    own = _own(arguments)
    also = kernel_log.lines(own, arguments["since"], arguments["unit"], parse)
    entries = sorted([*own, *also], key=lambda entry: entry["time"]) if also else own
    return {"entries": [_told(entry) for entry in entries]}


def _own(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the newest lines of a unit, and of systemd about it, as they are."""
    since = arguments["since"]
    options = [f"--lines={arguments['lines']}"]
    if since is not None:
        options.append(f"--since=@{since:.6f}")
    unit, invocation = arguments["unit"], arguments["invocation"]
    # Of a process that died at once journald knows the unit, but no longer the invocation.
    by_time = invocation is not None and since is not None
    selected = matches(unit, None if by_time else invocation)
    ended = processes.run(commands.journal(selected, *options), timeout=120)
    if ended.exit != 0:
        raise Failure(
            "no-journal",
            f"journalctl failed: {foreign.last_words(ended.errors, 500)}",
            "Check that journald of this host runs.",
        )
    entries = filter(None, map(parse, ended.output.splitlines()))
    wanted = (None, invocation) if by_time else None
    return [entry for entry in entries if wanted is None or entry["invocation"] in wanted]


def last_lines(unit: str, invocation: str, lines: int) -> list[str]:
    """Return the newest messages of an invocation, also of an earlier boot, if they can be had."""
    asked = {"unit": unit, "invocation": invocation, "since": None, "lines": lines}
    with contextlib.suppress(Failure):
        return [foreign.safe(entry["message"]) for entry in _own(asked)]
    return []


class Follower:
    """Follows the lines of one invocation as they are written.

    A journalctl that ends (journald was restarted, say) is followed by another one after a pause,
    from the last line seen.

    Args:
        unit: The unit.
        invocation: The invocation.
        since: When it was started.
        later: Whether the invocations that come after it are followed too.
    """

    def __init__(self, unit: str, invocation: str, since: float, *, later: bool = False) -> None:
        self._matches = matches(unit, None)
        self._invocation = invocation
        self._later = later
        self._begun = False
        self._since = f"--since=@{since:.6f}"
        self._cursor: str | None = None
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._open_at = 0.0

    def lines(self, seconds: float, also: Sequence[int] = ()) -> Iterator[dict[str, Any]]:
        """Yield the entries that come within a time; the first ones end the wait.

        Args:
            seconds: How long to wait.
            also: Descriptors that end the wait when there is something to read of them.
        """
        pause = self._open_at - time.monotonic()
        if self._process is None and pause > 0:
            select.select(also, [], [], min(pause, seconds))
            return
        descriptor = cast("IO[bytes]", self._opened().stdout).fileno()
        ready, _, _ = select.select([descriptor, *also], [], [], seconds)
        if descriptor not in ready:
            return
        chunk = os.read(descriptor, 1 << 20)
        if not chunk:
            self.close()
            self._open_at = time.monotonic() + _REOPEN_SECONDS
            return
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_ENTRY:
            self._rest = b""  # what still comes of it is no entry, and is passed over
        for entry in filter(None, map(parse, complete)):
            self._cursor = entry["cursor"]
            if self._is_wanted(entry["invocation"]):
                yield entry

    def _is_wanted(self, invocation: str | None) -> bool:
        if invocation is None:
            return True
        self._begun = self._begun or invocation == self._invocation
        return invocation == self._invocation or (self._later and self._begun)

    def close(self) -> None:
        """End following."""
        if self._process is not None:
            self._process.kill()
            cast("IO[bytes]", self._process.stdout).close()
            self._process.wait()
            self._process = None

    def _opened(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            after = (f"--after-cursor={self._cursor}" if self._cursor else self._since,)
            self._rest = b""
            self._process = subprocess.Popen(
                commands.journal(self._matches, "--follow", "--lines=all", *after),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    ours = ("cursor", "message_id")
    kept = {key: value for key, value in entry.items() if key not in ours}
    return {**kept, "message": foreign.safe(entry["message"])}


def _text(value: Any) -> str | None:
    return message_text(value) or None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, str) and value.isdigit() else None
