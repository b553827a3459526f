"""Stand-in for tests; not the real vLLM: what a start needs of its host, and how it fails without.

`/etc/vllm-standin-needs.json` names needs: `{"needs": [...], "version"?}`. A start checks them in
their order and fails as the real one does where the first of them is not met.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from .process import PID, TIME, say

OPEN_FILES = 10_000
READY_SECONDS = 3600
BUILD = Path(".cache/torch_extensions/py312_cu124/xgrammar")
SITE = "/opt/vllm/env/lib/python3.12/site-packages"
Failed = tuple[str, str]
"""The file that the innermost call is in, and what was raised there."""


def check(version: str) -> None:
    """End this process where a need is not met."""
    path = os.environ.get("VLLM_STANDIN_NEEDS", "/etc/vllm-standin-needs.json")
    try:
        asked = json.loads(Path(path).read_text())
    except FileNotFoundError:
        return
    if asked.get("version", version) != version:
        return
    for name in asked["needs"]:
        failed = NEEDS[name]()
        if failed is not None:
            _raise(*failed)


def _raise(file: str, raised: str) -> None:
    for line in (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        f'  File "{SITE}/vllm/v1/engine/core.py", line 1110, in run_engine_core',
        "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
        f'  File "{SITE}/{file}", line 94, in __init__',
        *raised.splitlines(),
    ):
        say(f"(EngineCore pid={PID}) ERROR {TIME} [core.py:1006] {line}")
    sys.exit(1)


def _without_symm_mem() -> Failed | None:
    if os.environ.get("VLLM_ALLREDUCE_USE_SYMM_MEM") == "0":
        return None
    file = "torch/distributed/_symmetric_memory/__init__.py"
    return file, "RuntimeError: CUDA driver error: system not yet initialized"


def _open_files() -> Failed | None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= OPEN_FILES:
        return None
    return "zmq/sugar/socket.py", "zmq.error.ZMQError: Too many open files"


def _time_to_get_ready() -> Failed | None:
    if int(os.environ.get("VLLM_ENGINE_READY_TIMEOUT_S", "600")) >= READY_SECONDS:
        return None
    said = "TimeoutError: Timed out waiting for engines to send initial message on input socket."
    return "vllm/v1/engine/core_client.py", said


def _ninja() -> Failed | None:
    if shutil.which("ninja"):
        return None
    return "subprocess.py", "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'"


def _no_broken_build() -> Failed | None:
    built = Path.home() / BUILD
    if not built.exists():
        return None
    said = f"OSError: {built}/xgrammar.so: cannot open shared object file: No such file"
    return "torch/utils/cpp_extension.py", said


def _alone_on_gpu() -> Failed | None:
    """Fail while a process whose parent is gone is left in this service's control group."""
    group = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    pids = Path(f"/sys/fs/cgroup{group}/cgroup.procs").read_text().split()
    if not any(pid != str(os.getpid()) and _parent(pid) == "1" for pid in pids):
        return None
    said = (
        "ValueError: Free memory on device cuda:0 (3.12/79.11 GiB) on startup is less than desired "
        "GPU memory utilization (0.92, 72.78 GiB)."
    )
    return "vllm/v1/worker/utils.py", said


def _parent(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def _numpy() -> Failed | None:
    if _version("numpy") < (2, 3):
        return None
    said = f"ImportError: Numba needs NumPy 2.2 or less. Got NumPy {_installed('numpy')}."
    return "numba/__init__.py", said


def _cutlass() -> Failed | None:
    if _installed("nvidia-cutlass-dsl") == _pinned("nvidia-cutlass-dsl"):
        return None
    said = "AttributeError: module 'cutlass.cute.arch' has no attribute 'fmin'"
    return "flashinfer/cute_dsl/utils.py", said


def _torch() -> Failed | None:
    if _installed("torch") == _pinned("torch"):
        return None
    said = (
        f"ImportError: {SITE}/vllm/_C.abi3.so: undefined symbol: _ZN5torch3jit17parseSchemaOrName"
    )
    return "vllm/platforms/cuda.py", said


def _transformers() -> Failed | None:
    if _version("transformers") < (5,):
        return None
    said = "ValueError: 'aimv2' is already used by a Transformers config, pick another name."
    return "transformers/models/auto/configuration_auto.py", said


def _installed(name: str) -> str:
    return importlib.metadata.version(name)


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _installed(name).split(".")[:2])


def _pinned(name: str) -> str:
    """Return the version that this vLLM's own metadata pins."""
    asked = importlib.metadata.requires("vllm") or []
    pins = (re.match(rf"{re.escape(name)}==([^;,\s]+)", one) for one in asked)
    return next(pin[1] for pin in pins if pin)


NEEDS: dict[str, Callable[[], Failed | None]] = {
    "no-symm-mem": _without_symm_mem,
    "open-files": _open_files,
    "time-to-get-ready": _time_to_get_ready,
    "ninja": _ninja,
    "no-broken-build": _no_broken_build,
    "alone-on-gpu": _alone_on_gpu,
    "numpy": _numpy,
    "cutlass": _cutlass,
    "torch": _torch,
    "transformers": _transformers,
}
"""What can be needed: each says how a start fails without it, or None."""
