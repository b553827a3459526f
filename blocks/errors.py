"""The errors a person sees: what happened, what was left as it was, what to do next."""

from typing import Self


class RedeployError(Exception):
    """Base of all errors of this product; `str()` of it is three sentences.

    Args:
        message: What happened.
        hint: What to do next.
        left: What was left as it was.
    """

    def __init__(self, message: str, hint: str = "", left: str = "") -> None:
        super().__init__(message, hint, left)
        self.message = message
        self.hint = hint
        self.left = left

    def __str__(self) -> str:
        return " ".join(part for part in (self.message, self.left, self.hint) if part)


class ConfigurationError(RedeployError):
    """What was configured cannot be used."""

    def __init__(self, message: str, hint: str = "", left: str = "") -> None:
        super().__init__(message, hint, left or "Nothing was done.")


class HostError(RedeployError):
    """A host could not be spoken to; `address` says which one."""

    address: str = ""

    @classmethod
    def of(cls, address: str, message: str, hint: str = "", left: str = "") -> Self:
        """Make the error of one host."""
        error = cls(message, hint, left)
        error.address = address
        return error


class HostUnreachable(HostError):
    """There is no link; `sent` says whether the command had been sent when it was lost."""

    sent: bool = False


class HostKeyRejected(HostError):
    """The host showed a key that is not the known one, or none is known."""


class AuthenticationRefused(HostError):
    """The host does not let this user in with this key."""


class SudoRefused(HostError):
    """The host's sudo does not let this user do it, or does not take the password."""


class CommandFailed(RedeployError):
    """A command ended with another exit status than 0, or did not end in time."""

    argv: tuple[str, ...] = ()
    exit: int | None = None
    stdout: str = ""
    stderr: str = ""


class Refused(RedeployError):
    """The supervisor refused a call and changed nothing; `kind` says why, `fields` the rest."""

    kind: str = ""
    fields: dict[str, object]

    def __init__(self, message: str, hint: str = "", left: str = "") -> None:
        super().__init__(message, hint, left or "Nothing was changed on the host.")
        self.fields = {}


class StillRunning(RedeployError):
    """An operation had not finished by the deadline; it goes on running on the host."""

    operation: str = ""
    seconds: float = 0.0
