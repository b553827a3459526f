"""What can go wrong with a sandbox host, said so that a person can act on it."""

from __future__ import annotations


class SandboxError(Exception):
    """A sandbox host could not be made, started or reached."""

    def __init__(self, what: str, hint: str) -> None:
        """Keep what happened apart from what to do next."""
        super().__init__(f"{what} {hint}")
        self.what = what
        self.hint = hint
