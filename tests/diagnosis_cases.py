"""Every case of diagnosis as journals: those that were kept, and those that are built.

A case without a journal of its own stands amid ordinary start-up noise: decoy warnings before its
decisive lines, its consequences after them, its workers mixed. Builds are deterministic.
"""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases" / "diagnosis"
BUILDS = 6
_PREFIXED = re.compile(r"^(?:\([\w-]+(?: \w+=\d+)* pid=\d+\) |(?:ERROR|INFO|WARNING) )")
_EXCEPTION = re.compile(r"^[\w.]+(?:Error|Exception|Exit): ")
_HELD = re.compile(r"^(?:vllm\.service|kernel): ")

_START = (
    "(APIServer pid=400) INFO 12-01 12:00:01 [startup.py:38]        █     █     █▄   ▄█",
    "(APIServer pid=400) INFO 12-01 12:00:01 [startup.py:38]  ▄▄ ▄█ █  █  █ ▀▄▀ █  version 0.33.0",
    "(APIServer pid=400) INFO 12-01 12:00:01 [utils.py:233] non-default args: {'port': 8000, "
    "'model': '/srv/models/m', 'tensor_parallel_size': 8, 'disable_log_stats': False}",
    "(APIServer pid=400) INFO 12-01 12:00:03 [model.py:744] Resolved architecture: "
    "LlamaForCausalLM",
    "(APIServer pid=400) INFO 12-01 12:00:03 [model.py:2170] Using max model len 131072",
    "(EngineCore pid=500) INFO 12-01 12:00:09 [core.py:139] Initializing a V1 LLM engine (v0.33.0) "
    "with config: model='/srv/models/m', trust_remote_code=False, dtype=torch.bfloat16",
    "(EngineCore pid=500) INFO 12-01 12:00:10 [parallel_state.py:1845] world_size=8 rank=0 "
    "local_rank=0 distributed_init_method=tcp://127.0.0.1:43411 backend=nccl",
    "(Worker_TP0 pid=600) INFO 12-01 12:00:12 [gpu_model_runner.py:4124] Starting to load model m",
    "(Worker_TP0 pid=600) INFO 12-01 12:00:13 [cuda.py:310] Using FLASH_ATTN attention backend",
    "(Worker_TP0 pid=600) Loading safetensors checkpoint shards:  50% Completed | 2/4 "
    "[00:03<00:03]",
    "(Worker_TP0 pid=600) INFO 12-01 12:00:20 [default_loader.py:308] Loading weights took 6.1 s",
    "(Worker_TP0 pid=600) INFO 12-01 12:00:31 [backends.py:617] Dynamo bytecode transform time: "
    "4 s",
)
_DECOYS = (
    "(APIServer pid=400) WARNING 12-01 12:00:02 [system_utils.py:255] Found ulimit of 20000 and "
    "failed to automatically increase with error current limit exceeds maximum limit. This can "
    "cause fd limit errors like `OSError: [Errno 24] Too many open files`.",
    "(APIServer pid=400) WARNING 12-01 12:00:02 [interface.py:1470] Unknown vLLM environment "
    "variable detected: VLLM_USE_V1",
    "(EngineCore pid=500) WARNING 12-01 12:00:09 [import_utils.py:42] Numba needs NumPy 2.4 or "
    "less. Got NumPy 2.5. N-gram speculation is off.",
    "(Worker_TP0 pid=600) WARNING 12-01 12:00:11 [symm_mem.py:67] SymmMemCommunicator: Device "
    "capability 8.9 not supported, communicator is not available.",
    "(Worker_TP0 pid=600) WARNING 12-01 12:00:11 [custom_all_reduce.py:154] Custom allreduce is "
    "disabled because your platform lacks GPU P2P capability or P2P test failed.",
    "(APIServer pid=400) WARNING 12-01 12:00:02 [argparse_utils.py:87] argument "
    "'--disable-log-requests' is deprecated and will be removed in v0.12.0.",
    "/opt/vllm/.venv/lib/python3.12/site-packages/torch/cuda/__init__.py:61: FutureWarning: The "
    "pynvml package is deprecated. Please install nvidia-ml-py instead.",
    "[W1201 12:00:10.118 ProcessGroupNCCL.cpp:1538] Warning: 0 NCCL_AVOID_RECORD_STREAMS=1 has no "
    "effect",
    "[Gloo] Rank 0 is connected to 0 peer ranks. Expected number of connected peer ranks is : 0",
    "(APIServer pid=400) WARNING 12-01 12:00:04 [registry.py:120] Model architecture Foo is "
    "already registered, and will be overwritten by the new model class.",
    "`torch_dtype` is deprecated! Use `dtype` instead!",
    "(EngineCore pid=500) WARNING 12-01 12:00:12 [flashinfer.py:139] FlashInfer's autotuner cache "
    "does not match this GPU; it is made anew.",
)
_SERVING = (
    "(APIServer pid=400) INFO:     Application startup complete.",
    '(APIServer pid=400) INFO:     10.0.0.5:59930 - "POST /v1/completions HTTP/1.1" 200 OK',
    "(APIServer pid=400) INFO 12-01 12:05:01 [loggers.py:257] Engine 000: Avg prompt throughput: "
    "221.4 tokens/s, Avg generation throughput: 183.1 tokens/s, Running: 3 reqs, Waiting: 0 reqs",
)
_TAIL = (
    "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: resource_tracker: "
    "There appear to be 1 leaked shared_memory objects to clean up at shutdown",
    "  warnings.warn('resource_tracker: There appear to be %d '",
)
_UV_NOISE = (
    "Using Python 3.12.11 environment at: /opt/vllm/.venv",
    "warning: The package `ray==2.9` does not have an extra named `cgraph`",
    "Resolved 163 packages in 2.31s",
)
_IDS = {"APIServer": ("APIServer", 400), "EngineCore": ("EngineCore", 500)}


@dataclass(frozen=True)
class Journal:
    """One journal of a case, and the lines that are its root cause."""

    case: str
    build: str
    text: str
    expected: dict[str, Any]
    roots: frozenset[int]

    @property
    def name(self) -> str:
        return f"{self.case}:{self.build}"


def journals() -> Iterator[Journal]:
    """Yield every journal of every case that has a line to find, the healthy ones among them."""
    for file in sorted(CASES.glob("*/*.json")):
        expected = json.loads(file.read_text())
        if file.with_suffix(".log").exists():
            text = file.with_suffix(".log").read_bytes().decode()
            yield Journal(file.stem, "kept", text, expected, _roots(text, expected))
        elif expected["root_cause_lines"]:
            for seed in range(BUILDS):
                yield _built(file.stem, expected, seed)


def _roots(text: str, expected: dict[str, Any]) -> frozenset[int]:
    if "root_cause_at" in expected:
        return frozenset(expected["root_cause_at"])
    return frozenset(
        number
        for number, line in enumerate(text.split("\n"), start=1)
        if any(said in line for said in expected["root_cause_contains"])
    )


def _built(case: str, expected: dict[str, Any], seed: int) -> Journal:
    chosen = random.Random(f"{case}/{seed}")  # noqa: S311
    lines = [(line, False) for line in _before(expected, chosen)]
    lines += _decisive(expected, chosen, seed)
    lines += [(line, False) for line in _after(expected, seed)]
    written = [_journald(line, seed) for line, _ in lines]
    roots = frozenset(number for number, (_, root) in enumerate(lines, start=1) if root)
    return Journal(case, f"built-{seed}", "\n".join(written) + "\n", expected, roots)


def _before(expected: dict[str, Any], chosen: random.Random) -> list[str]:
    if expected["process"] == "uv":
        return list(_UV_NOISE[: chosen.randint(1, 3)])
    if expected["process"] == "systemd":
        return ["vllm.service: Scheduled restart job, restart counter is at 1."]
    lines = [*_START[: chosen.randint(4, len(_START))]]
    for decoy in chosen.sample(_DECOYS, 4):
        lines.insert(chosen.randint(1, len(lines)), decoy)
    if expected["kind"] in ("serving", "limits") or "500 Internal" in str(expected):
        lines += _SERVING
    return lines


def _decisive(expected: dict[str, Any], chosen: random.Random, seed: int) -> list[tuple[str, bool]]:
    """As the report has them; as the end of a logged traceback; from several workers, mixed."""
    process = expected["process"]
    said = expected["root_cause_lines"]
    if process in ("uv", "systemd", "kernel"):
        return [(line, True) for line in said]
    if process != "Worker":
        name, pid = _IDS[process]
        return _voice(said, name, pid, seed)
    voices = [_voice(said, f"Worker_TP{rank}", 600 + rank, seed) for rank in range(2 + seed % 7)]
    mixed = []
    while any(voices):
        voice = chosen.choice([one for one in voices if one])
        mixed.append(voice.pop(0))
    return mixed


def _voice(said: list[str], name: str, pid: int, seed: int) -> list[tuple[str, bool]]:
    traceback = seed % 2 == 1 and any(_EXCEPTION.match(line) for line in said)
    level = "" if seed % 3 == 2 and not traceback else "ERROR 12-01 12:01:00 [core.py:1584] "
    found = []
    for line in said:
        if _PREFIXED.match(line) or _HELD.match(line):
            found.append((line, True))
            continue
        prefix = f"({name} pid={pid}) {'' if line.startswith('INFO') else level}"
        if traceback and _EXCEPTION.match(line):
            found += [(prefix + frame, False) for frame in _frames(name)]
        found.append((prefix + line, True))
    return found


def _frames(name: str) -> list[str]:
    file = "/opt/vllm/.venv/lib/python3.12/site-packages/vllm"
    return [
        "Traceback (most recent call last):",
        f'  File "{file}/v1/engine/core.py", line 1561, in run_{name.lower()}',
        "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
        f'  File "{file}/tracing/otel.py", line 178, in sync_wrapper',
        "    return func(*args, **kwargs)",
    ]


def _after(expected: dict[str, Any], seed: int) -> list[str]:
    lines = []
    for line in expected["consequence_lines"]:
        plain = _PREFIXED.match(line) or _HELD.match(line) or expected["process"] in ("uv",)
        who = "(APIServer pid=400) " if "Engine core init" in line else "(EngineCore pid=500) "
        lines.append(line if plain else f"{who}{line}")
    if expected["process"] in ("uv", "systemd") or expected["kind"] in ("hang", "serving"):
        return lines
    if "500 Internal" in str(expected):
        return lines
    return [
        *lines,
        *_TAIL[: 2 * (seed % 2)],
        "vllm.service: Main process exited, code=exited, status=1/FAILURE",
        "vllm.service: Failed with result 'exit-code'.",
    ]


def _journald(line: str, seed: int) -> str:
    """Put a line into a journal; every third build is the bare output."""
    if seed % 3 == 1 and not line.startswith("vllm.service"):
        return line
    stamp = "2026-12-01T12:01:00+0000 gpu01"
    if line.startswith("kernel: "):
        return f"{stamp} {line}"
    if line.startswith("vllm.service"):
        return f"{stamp} {'(vllm)[70]' if 'Failed at' in line else 'systemd[1]'}: {line}"
    return f"{stamp} vllm[400]: {line}"
