"""Stand-in for tests; not the real FlashInfer."""

import logging

from . import env as jit_env

logger = logging.getLogger("flashinfer.jit")
CUBINS = jit_env.FLASHINFER_CUBIN_DIR
