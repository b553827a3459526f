"""What an operation may use while it works: its progress, and notes that outlive a kill."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from blocks.supervisor import foreign, store

_PROGRESS_SECONDS = 0.5


class Work:
    """One run of an operation.

    Args:
        folder: Where its progress and its notes lie.
        secrets: Those that its caller brought, by name.
        root: The state folder; where there is none, the operation's own.
        holder: The redeploy that it belongs to.
    """

    def __init__(
        self,
        folder: Path,
        secrets: Mapping[str, str] | None = None,
        root: Path | None = None,
        holder: str = "",
    ) -> None:
        self._folder = folder
        self._notes = folder
        self.secrets = dict(secrets or {})
        self.root = root or folder
        self.holder = holder
        self._told = 0.0

    def part(self, name: str) -> Work:
        """Return the work of a part of this operation: its notes are its own."""
        part = Work(self._folder, self.secrets, self.root, self.holder)
        part._notes = self._notes / name
        return part

    @property
    def progress_path(self) -> Path:
        """Where the latest progress lies."""
        return self._folder / "progress.json"

    def progress(self, **values: Any) -> None:
        """Tell how far it is; called too often, it is dropped."""
        now = time.monotonic()
        if now - self._told >= _PROGRESS_SECONDS:
            self._told = now
            store.write(self.progress_path, foreign.all_safe(values), durable=False)

    def note(self, name: str, document: dict[str, Any]) -> None:
        """Write down what a second run has to know, durably, before it is done."""
        store.write(self._notes / f"note-{name}.json", document)

    def recall(self, name: str) -> dict[str, Any] | None:
        """Return the note that an earlier run left."""
        return store.read(self._notes / f"note-{name}.json")


Doer = Callable[[dict[str, Any], Work], dict[str, Any]]
"""What carries out a verb: its arguments and its work in, its result out."""
