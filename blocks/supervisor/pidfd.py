"""Notices the end of a process that is not a child of ours."""

from __future__ import annotations

import contextlib
import os
import select
import signal

_TICK_SECONDS = 0.25


class Process:
    """A process whose end is noticed, by a pidfd where there is one, else by asking the kernel."""

    def __init__(self, pid: int | None) -> None:
        self.pid = pid
        self.ended = False
        self._descriptor: int | None = None
        if pid is None:
            return
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.ended = True
        except (AttributeError, OSError):
            self._descriptor = None  # an old kernel, or a Python that was built for one

    @property
    def descriptors(self) -> list[int]:
        """What to wait for."""
        return [] if self._descriptor is None or self.ended else [self._descriptor]

    @property
    def longest_wait(self) -> float:
        """How long to wait at most before asking again."""
        if self.pid is None or self.ended or self._descriptor is not None:
            return float("inf")
        return _TICK_SECONDS

    def look(self) -> bool:
        """Tell whether it has ended since the last look."""
        if self.pid is None or self.ended:
            return False
        if self._descriptor is not None:
            self.ended = bool(select.select([self._descriptor], [], [], 0)[0])
        else:
            self.ended = not _is_there(self.pid)
        return self.ended

    def wait(self, seconds: float) -> bool:
        """Wait for its end, for a time at most; tell whether it has ended since the last look."""
        select.select(self.descriptors, [], [], min(seconds, self.longest_wait))
        return self.look()

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal: by its pidfd, where there is one, never to another that got its pid."""
        with contextlib.suppress(ProcessLookupError):
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, number)
            elif self.pid is not None:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _is_there(pid: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True
