"""Stand-in for tests; not the real vLLM: the import that a package skew breaks."""

from flashinfer import (  # type: ignore[import-not-found]  # installed beside it on the host
    BatchDecodeWithPagedKVCacheWrapper,
)

__all__ = ["BatchDecodeWithPagedKVCacheWrapper"]
