"""Stand-in for tests; not the real FlashInfer."""

from . import cubin_loader as cubin_loader
