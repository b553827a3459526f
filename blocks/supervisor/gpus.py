"""The GPUs by NVML, with the `pynvml` that the archive brings along."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Any, Callable

from blocks.supervisor import cgroups, patience
from blocks.supervisor.secrets import redacted_argv

_SECONDS = 30
_NONE_THERE = ("NVML_ERROR_LIBRARY_NOT_FOUND", "NVML_ERROR_DRIVER_NOT_LOADED")


def facts(control_group: str | None = None) -> dict[str, Any]:
    """Return driver and GPUs; processes in the control group are marked as ours."""
    try:
        pynvml = library()
    except ImportError as error:
        return {"driver": None, "problem": f"pynvml cannot be imported: {error}", "gpus": []}
    looked = patience.within(_SECONDS, "the GPU driver", lambda: _read(pynvml))
    found: dict[str, Any] = looked.value or {"driver": None, "problem": looked.problem, "gpus": []}
    for gpu in found["gpus"]:
        for process in gpu["processes"]:
            pid = process["pid"]
            process["ours"] = control_group is not None and cgroups.holds(control_group, pid)
            process["command"] = _command(pid)
    return found


@functools.cache
def library() -> Any:
    """Return `pynvml`, imported once: later the archive it lies in may have been replaced."""
    import pynvml  # slow to load, so only where GPUs are asked for

    return pynvml


def _read(pynvml: Any) -> dict[str, Any]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {"driver": None, "problem": _words(pynvml, error), "gpus": []}
    try:
        gpus = [_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
        driver = _or_none(pynvml, pynvml.nvmlSystemGetDriverVersion)
        return {"driver": driver, "problem": None, "gpus": gpus}
    except pynvml.NVMLError as error:
        return {"driver": None, "problem": _words(pynvml, error), "gpus": []}
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _gpu(pynvml: Any, index: int) -> dict[str, Any]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    running = _or_none(pynvml, pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    return {
        "index": index,
        "name": _or_none(pynvml, pynvml.nvmlDeviceGetName, handle) or "unknown",
        "uuid": _or_none(pynvml, pynvml.nvmlDeviceGetUUID, handle),
        "memory_total": int(memory.total),
        "memory_used": int(memory.used),
        "processes": [{"pid": int(one.pid), "memory": one.usedGpuMemory} for one in running or []],
    }


def _or_none(pynvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return an answer that not every driver can give."""
    try:
        answer = ask(*arguments)
    except pynvml.NVMLError:
        return None
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def _words(pynvml: Any, error: Any) -> str:
    none = [getattr(pynvml, name) for name in _NONE_THERE]
    return f"no NVIDIA driver ({error})" if error.value in none else f"NVML: {error}"


def _command(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()[:500]
        words = raw.decode("utf-8", "replace").rstrip("\x00").split("\x00")
        return " ".join(redacted_argv(words)) or None
    return None
