"""Hands secrets to an operation's process: by a file in memory that is gone once it was read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from blocks.supervisor import scope


class Handover:
    """Where secrets lie between the call that brings them and the process that takes them."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or scope.now().memory

    def put(self, operation: str, secrets: Mapping[str, str]) -> None:
        """Lay down what the operation's next run is to have, in place of what lies there."""
        self.drop(operation)
        if not secrets:
            return
        self._root.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._path(operation), flags, 0o600), "w") as file:
            json.dump(dict(secrets), file)

    def take(self, operation: str) -> dict[str, str]:
        """Return what lies there; it is gone then."""
        try:
            found: dict[str, str] = json.loads(self._path(operation).read_bytes())
        except (FileNotFoundError, ValueError):
            found = {}
        self.drop(operation)
        return found

    def drop(self, operation: str) -> None:
        """Remove what lies there."""
        self._path(operation).unlink(missing_ok=True)

    def _path(self, operation: str) -> Path:
        return self._root / hashlib.sha256(operation.encode()).hexdigest()[:32]
