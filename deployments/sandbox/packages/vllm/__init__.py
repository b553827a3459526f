"""Stand-in for tests; not the real vLLM."""

from ._version import __version__

__all__ = ["__version__"]
