"""Stand-in for tests; not the real FlashInfer: refuses a cubin package of another version."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib

from .._build_meta import __version__ as flashinfer_version


def _get_cubin_dir() -> pathlib.Path:
    if importlib.util.find_spec("flashinfer_cubin") is None:
        return pathlib.Path.home() / ".cache" / "flashinfer" / "cubins"
    cubin = importlib.import_module("flashinfer_cubin")
    if cubin.__version__ != flashinfer_version and not _check_is_off():
        raise RuntimeError(
            f"flashinfer-cubin version ({cubin.__version__}) does not match"
            f" flashinfer version ({flashinfer_version})."
            " Please install the same version of both packages."
            " Set FLASHINFER_DISABLE_VERSION_CHECK=1 to bypass this check."
        )
    return pathlib.Path(str(cubin.__file__)).parent / "cubins"


def _check_is_off() -> bool:
    return bool(os.getenv("FLASHINFER_DISABLE_VERSION_CHECK"))


FLASHINFER_CUBIN_DIR: pathlib.Path = _get_cubin_dir()
