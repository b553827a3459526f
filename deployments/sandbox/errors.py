"""What can go wrong with a sandbox host, said so that a person can act on it."""

from blocks.errors import RedeployError


class SandboxError(RedeployError):
    """A sandbox host could not be made, started or reached."""
