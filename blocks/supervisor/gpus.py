"""The GPUs by NVML, with the `pynvml` that the archive brings along."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, Callable

from blocks.supervisor import cgroups, patience, proc

_SECONDS = 30
_LIBRARY = "libnvidia-ml.so.1"
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
            process["command"] = proc.command(pid)
    return found


@functools.cache
def library() -> Any:
    """Return `pynvml`, imported once: later the archive it lies in may have been replaced."""
    import pynvml  # slow to load, so only where GPUs are asked for

    return pynvml


def opened() -> Any:
    """Return `pynvml` with the driver opened.

    Raises:
        OSError: There is no driver; then `pynvml`, which is slow to load, is not loaded.
        pynvml.NVMLError: The driver fails.
    """
    ctypes.CDLL(_LIBRARY)
    pynvml = library()
    pynvml.nvmlInit()
    return pynvml


def held_by(pynvml: Any, pids: set[int]) -> int | None:
    """Return the GPU memory that some processes hold.

    A driver that does not tell it by process, as in some containers, tells what is used of the GPUs
    that they are on. None: no GPU told of its processes.
    """
    told, total = False, 0
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        running = _or_none(pynvml, pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
        told = told or running is not None
        ours = [one for one in running or [] if int(one.pid) in pids]
        if any(one.usedGpuMemory is None for one in ours):
            total += int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
        else:
            total += sum(int(one.usedGpuMemory) for one in ours)
    return total if told else None


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
