"""Written anew into every wheel."""

__version__ = "0.0.0"
