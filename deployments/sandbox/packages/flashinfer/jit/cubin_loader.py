"""Stand-in for tests; not the real FlashInfer."""

from .core import logger as logger
