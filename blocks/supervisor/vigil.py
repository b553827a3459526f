"""Knows of a unit's end as soon as it comes, and asks systemd only when there is a reason to.

The kernel tells of the main process's end (a pidfd), the journal of what systemd does. Both are
waited for at once; systemd itself is asked when one of them has spoken, and now and then. Where it
does not answer (it executes itself anew, say), its last answer stands for some minutes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Callable

from blocks.supervisor import units
from blocks.supervisor.failures import Failure
from blocks.supervisor.journal import Follower
from blocks.supervisor.pidfd import Process

_BACKSTOP_SECONDS = 10.0
_BACKSTOP_WITHOUT_PROCESS_SECONDS = 1.0
_AFTER_AN_END_SECONDS = 0.05
_ANSWER_SECONDS = 10.0
_ASK_AGAIN_SECONDS = (0.5, 3.0)
"""After the first question without an answer, and after each further one."""
_SILENCE_SECONDS = 180.0
_QUIET_SECONDS = 0.25  # journald lets its readers wait so long
_SYSTEMD = 1


class Vigil:
    """Follows one unit.

    Args:
        unit: Its name.
        follower: What reads its lines.
        on_entry: Told each line as it comes.
    """

    def __init__(
        self, unit: str, follower: Follower, on_entry: Callable[[dict[str, Any]], None]
    ) -> None:
        self._unit = unit
        self._follower = follower
        self._on_entry = on_entry
        self._process = Process(None)
        self._heard = False
        self._ask_at = 0.0
        self._silent_since: float | None = None
        self.last: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        """Return the unit's state; systemd is asked if there was a reason to since the last time.

        Raises:
            Failure: systemd has not answered for some minutes; `last` is what it said before.
        """
        if time.monotonic() >= self._ask_at:
            self._ask()
        while not self.last:
            time.sleep(max(0.0, self._ask_at - time.monotonic()))
            self._ask()
        return self.last

    def is_sure(self) -> bool:
        """Tell whether the last state still holds: systemd answered, or the main process lives."""
        if self._silent_since is None:
            return True
        self._process.look()
        return self._process.pid is not None and not self._process.ended

    def ask_now(self) -> None:
        """Have systemd asked the next time."""
        self._ask_at = 0.0

    def wait(self, seconds: float) -> None:
        """Take in lines for a time, or until there is a reason to ask systemd."""
        end = time.monotonic() + seconds
        while (left := min(end, self._ask_at) - time.monotonic()) > 0:
            tick = min(left, self._process.longest_wait)
            self.take(tick, self._process.descriptors)
            if self._process.look():
                self.ask_now()

    def take(self, seconds: float, also: Sequence[int] = ()) -> bool:
        """Take in the lines that come next, and tell whether any came; others can end the wait."""
        came = False
        for entry in self._follower.lines(seconds, also):
            came = self._heard = True
            self._on_entry(entry)
            if entry["pid"] == _SYSTEMD:
                self.ask_now()
        return came

    def catch_up(self, most: float) -> None:
        """Take in the lines that were written already, for a time at most."""
        end = time.monotonic() + most
        while (left := end - time.monotonic()) > 0:
            quiet = _QUIET_SECONDS if self._heard else most
            if not self.take(min(quiet, left)):
                return

    def close(self) -> None:
        """End following."""
        self._process.close()
        self._follower.close()

    def _ask(self) -> None:
        began = time.monotonic()
        try:
            self.last = units.state(self._unit, _ANSWER_SECONDS)
        except Failure as failure:
            self._put_off(began, failure)
            return
        self._silent_since = None
        self._follow_process(self.last["main_pid"])
        self._ask_at = time.monotonic() + self._patience()

    def _put_off(self, asked: float, failure: Failure) -> None:
        """Ask again later, unless it is silent for too long."""
        soon, later = _ASK_AGAIN_SECONDS
        now = time.monotonic()
        self._ask_at = now + (soon if self._silent_since is None else later)
        self._silent_since = asked if self._silent_since is None else self._silent_since
        silent = now - self._silent_since
        if silent >= _SILENCE_SECONDS:
            raise Failure(
                failure.kind,
                f"systemd has not told of {self._unit} for {silent:.0f} s: {failure.message}",
                f"{failure.hint} {self._unit} was left as it is.",
            ) from failure

    def _follow_process(self, pid: int | None) -> None:
        if pid != self._process.pid:
            self._process.close()
            self._process = Process(pid)

    def _patience(self) -> float:
        """Return when to ask again: soon when the process has ended and systemd is behind."""
        if self._process.ended:
            return _AFTER_AN_END_SECONDS
        if self._process.pid is None:
            return _BACKSTOP_WITHOUT_PROCESS_SECONDS
        return _BACKSTOP_SECONDS
