"""How much GPU memory some processes hold, asked of a driver that may hang.

NVML is kept open in a forked child, since opening it is what costs; the child is asked, and what it
said last is taken. One that does not answer is not asked again, nor waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blocks.supervisor import gpus, patience


class GpuMemory:
    """Asks for the memory that processes hold, for as long as there is a driver to ask."""

    def __init__(self) -> None:
        self._child: patience.Beside | None = None
        self._held: int | None = None
        self.is_over = False

    def held_by(self, pids: Iterable[int]) -> int | None:
        """Return the bytes that were held when the child last looked, and have it look anew.

        None: there is no driver, it does not tell, or it does not answer.
        """
        if self.is_over:
            return None
        if self._child is None:
            self._child = patience.Beside(_Looker())
        answer = self._child.answer()
        if answer is not None:
            self._held = answer.value
            self.is_over = answer.problem is not None
        elif self._child.asked:
            self._held = None  # it hangs, perhaps for a moment
        if not self.is_over and not self._child.asked:
            self._child.ask(sorted(pids))
        if self.is_over:
            self.close()
        return self._held

    def close(self) -> None:
        """Let go of the child."""
        if self._child is not None:
            self._child.close()
            self._child = None


class _Looker:
    """What the child does."""

    def __init__(self) -> None:
        self._pynvml: Any = None

    def __call__(self, pids: list[int]) -> int | None:
        if self._pynvml is None:
            self._pynvml = gpus.opened()
        return gpus.held_by(self._pynvml, set(pids))
