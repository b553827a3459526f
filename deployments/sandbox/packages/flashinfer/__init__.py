"""Stand-in for tests; not the real FlashInfer: only its version check at import is like it."""

from . import jit as jit
from ._build_meta import __version__ as __version__


class BatchDecodeWithPagedKVCacheWrapper:
    """Does nothing; vLLM imports the name."""
