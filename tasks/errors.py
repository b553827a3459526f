"""How a redeploy fails."""

import re
from typing import Any

from blocks.errors import RedeployError, Refused

_SENTENCE, _WORDS = 200, 200


def in_short(message: str) -> str:
    """Return a message in one line: our sentence, and what a foreign program said last."""
    message = re.sub(r"(?<!\.)\.\.(?=\s|$)", ".", message.strip())
    if "\n" not in message and len(message) <= _SENTENCE + _WORDS:
        return message
    first = message.splitlines()[0]
    ours, _, words = first.partition(": ")
    if "\n" in message:
        words = _end(message.removeprefix(ours).removeprefix(": "))
    ours = _start(ours.rstrip(": "), _SENTENCE)
    return f"{ours}: {_start(words, _WORDS + 1)}" if words else ours


def _start(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _end(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else f"…{line[-_WORDS:]}"


class StepFailed(RedeployError):
    """A step that did not succeed.

    Attributes:
        step: the step's name.
        kind: the supervisor's word for it, for example `crashed` or `not-verified`.
        fields: what else the host said about it; `said` is the whole message where it was long.
    """

    def __init__(
        self, step: str, kind: str, message: str, *, hint: str = "", **fields: Any
    ) -> None:
        short = in_short(message)
        super().__init__(short, hint=hint)
        self.step = step
        self.kind = kind
        self.fields = fields if short == message else {"said": message, **fields}

    @property
    def said(self) -> str:
        """Return the whole message where the error's own is shorter, else ""."""
        return str(self.fields.get("said", ""))

    @classmethod
    def of(cls, step: str, refused: Refused) -> "StepFailed":
        """Return the failure of a step whose call the supervisor refused."""
        return cls(step, refused.kind, refused.message, hint=refused.hint, **refused.fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.step, self.kind, self.message, self.hint, self.fields)


class PlanRefused(RedeployError):
    """The plan says no; nothing was changed on the host."""


def _rebuild(step: str, kind: str, message: str, hint: str, fields: dict[str, Any]) -> StepFailed:
    return StepFailed(step, kind, message, hint=hint, **fields)
