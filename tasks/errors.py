"""How a redeploy fails."""

from typing import Any

from blocks.errors import RedeployError, Refused


class StepFailed(RedeployError):
    """A step that did not succeed.

    Attributes:
        step: the step's name.
        kind: the supervisor's word for it, for example `crashed` or `not-verified`.
        fields: what else the host said about it.
    """

    def __init__(
        self, step: str, kind: str, message: str, *, hint: str = "", **fields: Any
    ) -> None:
        super().__init__(message, hint=hint)
        self.step = step
        self.kind = kind
        self.fields = fields

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
