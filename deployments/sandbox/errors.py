"""What can go wrong with a sandbox host, said so that a person can act on it."""

from blocks.errors import ConfigurationError, RedeployError


class SandboxError(RedeployError):
    """A sandbox host could not be made, started or reached."""


class WrongWish(SandboxError, ConfigurationError):
    """What was asked for cannot be: no name for a host, or no such story."""
