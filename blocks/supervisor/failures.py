"""The two ways to say no: a refusal changes nothing, a failure is a recorded answer."""

from __future__ import annotations

from typing import Any

from blocks.supervisor import foreign


class Told(Exception):
    """Something a person is told: a kind for programs, a sentence, and what to do next."""

    def __init__(self, kind: str, message: str, hint: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.fields = fields

    def document(self) -> dict[str, Any]:
        """Return it as it is written in JSON, fit to be told."""
        told = {"message": self.message, "hint": self.hint, **self.fields}
        return {"kind": self.kind, **foreign.all_safe(told)}


class Refusal(Told):
    """A call was not taken up; nothing was changed."""


class Failure(Told):
    """An operation was tried and failed; this is its result."""
