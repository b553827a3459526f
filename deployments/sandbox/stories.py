"""The stories that a host can be laid out with: data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deployments.sandbox.catalog import Release, lock


@dataclass(frozen=True)
class DebugFiles:
    """Dumps that an operator left behind: how many, how large together, what they are called."""

    pattern: str
    count: int
    total_bytes: int


@dataclass(frozen=True)
class Story:
    """A service as it runs before the redeploy, and the nightly that it is to be moved to."""

    key: str
    service: str
    unit: str
    user: str
    data_path: str
    environment: str
    port: int
    model: str
    model_config: Mapping[str, object]
    served_model: str
    old: Release
    nightly: Release
    cubin: str
    offered_cubins: tuple[str, ...]
    markers: tuple[str, ...]
    debug_code: Mapping[str, str]
    debug_files: DebugFiles
    forbidden_config_keys: tuple[str, ...]
    serve_options: tuple[str, ...]
    index_path: str = ""
    offered: tuple[tuple[str, str], ...] = ()
    api_key: str | None = None
    listen: str = "0.0.0.0"  # noqa: S104

    @property
    def on_loopback(self) -> bool:
        """Whether the service is reached on its own host only."""
        return self.listen in ("127.0.0.1", "::1")


# Of the 178 packages of the real lock these are left out, so that 163 remain.
_TELEMETRY = {
    "googleapis-common-protos",
    "opentelemetry-api",
    "opentelemetry-exporter-http-transport",
    "opentelemetry-exporter-otlp-common",
    "opentelemetry-exporter-otlp-proto-common",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-proto",
    "opentelemetry-sdk",
    "opentelemetry-semantic-conventions",
}
_NEWCOMERS = {
    "agent-detector",
    "detect-installer",
    "httpcore2",
    "httpx2",
    "mcp-types",
    "truststore",
}
_OLDER = {
    "aiohttp": "3.13.5",
    "anthropic": "2.9.1",
    "anyio": "4.14.2",
    "certifi": "2026.8.4",
    "fastapi": "0.161.0",
    "filelock": "4.2.0",
    "grpcio": "1.83.0",
    "grpcio-reflection": "1.83.0",
    "hf-xet": "1.7.4",
    "mcp": "2.1.0",
    "mistral-common": "1.12.0",
    "openai": "3.41.0",
    "protobuf": "7.35.1",
    "pydantic": "2.14.1",
    "pydantic-core": "2.50.1",
    "ray": "2.58.1",
    "regex": "2026.9.30",
    "sentry-sdk": "3.0.0a7",
    "starlette": "1.8.2",
    "tqdm": "4.69.0",
    "urllib3": "2.7.2",
    "uvicorn": "0.51.0",
    "websockets": "17.2",
    "yarl": "1.24.0",
}

KIMI = Story(
    key="kimi",
    service="kimi",
    unit="vllm-kimi-k25.service",
    user="vllm",
    data_path="/opt/vllm",
    environment="/opt/vllm/env",
    port=8000,
    model="/models/kimi-k25",
    model_config={
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "vocab_size": 163840,
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "compressed-tensors"},
    },
    served_model="kimi-k2.5",
    old=Release(
        version="0.16.0rc2.dev313+g662205d34",
        commit="662205d34bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        flashinfer="0.6.3",
        asks=("sentry-sdk>=2",),
        left_out=frozenset(_TELEMETRY | _NEWCOMERS),
        versions=_OLDER,
    ),
    nightly=Release(
        version="0.16.0rc2.dev344+gea5f903f8",
        commit="ea5f903f8aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        flashinfer="0.6.4",
        asks=("sentry-sdk==2.53.0",),
        left_out=frozenset(_TELEMETRY | _NEWCOMERS),
        versions={"sentry-sdk": "2.53.0"},
    ),
    cubin="0.6.3",
    offered_cubins=("0.6.3", "0.6.4"),
    markers=("torch.save", "_t.save", "NOMLA_SAVE", "embed_debug", "_nomla_debug"),
    debug_code={
        "vllm/model_executor/models/deepseek_v2.py": """

import os as _os

NOMLA_SAVE = _os.environ.get("NOMLA_SAVE") == "1"


def _nomla_debug(name, tensor):  # left over from a hunt for wrong outputs
    if NOMLA_SAVE:
        import torch as _t

        _t.save(tensor, f"/tmp/{name}.pt")


def embed_debug(hidden_states):
    import torch

    torch.save(hidden_states, "/tmp/embed_debug.pt")
    _nomla_debug("embed", hidden_states)
    return hidden_states
""",
        "vllm/model_executor/model_loader/gguf_loader.py": """

def _patched_gguf_name(hf_name):  # tried: experts under another name
    return gguf_name(hf_name).replace("experts.", "exps.")
""",
        "vllm/model_executor/model_loader/weight_utils.py": """

PRINT_SHARDS = True  # tried: which shard is slow
""",
    },
    debug_files=DebugFiles("/tmp/*.pt", 35, 65_000_000),  # noqa: S108 - where they lie
    forbidden_config_keys=("kv_cache_scheme", "kv_cache_quant_algo"),
    serve_options=("--tensor-parallel-size", "8", "--trust-remote-code"),
)

_WITHOUT_RAY = {"cupy-cuda12x", "msgpack", "ray", "supervisor"}

SECOND = Story(
    key="second",
    service="qwen",
    unit="qwen-serve.service",
    user="llm",
    data_path="/srv/llm",
    environment="/srv/llm/venv",
    port=9001,
    model="/srv/models/qwen3-next",
    model_config={
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "num_hidden_layers": 48,
        "hidden_size": 2048,
        "vocab_size": 151936,
        "torch_dtype": "bfloat16",
    },
    served_model="qwen3-next",
    old=Release(
        version="0.15.2rc1.dev88+g0c1d2e3f4",
        commit="0c1d2e3f4ccccccccccccccccccccccccccccccc",
        flashinfer="0.6.5",
        left_out=frozenset(_WITHOUT_RAY | {"agent-detector", "detect-installer"}),
        versions={
            "fastapi": "0.162.1",
            "fastapi-cloud-cli": "0.27.1",
            "huggingface-hub": "0.37.0",
            "numpy": "2.2.4",
            "openai": "3.50.0",
            "pillow": "12.4.0",
            "psutil": "7.1.0",
            "transformers": "4.57.1",
            "uvicorn": "0.53.0",
        },
    ),
    nightly=Release(
        version="0.17.0rc1.dev12+g9f8e7d6c5",
        commit="9f8e7d6c5ddddddddddddddddddddddddddddddd",
        flashinfer="0.6.4",
        asks=("huggingface-hub<0.37",),
        left_out=frozenset(_WITHOUT_RAY | {"gguf"}),
    ),
    cubin="0.6.5",
    offered_cubins=("0.6.4", "0.6.5"),
    markers=("np.save", "DUMP_ACTS"),
    debug_code={
        "vllm/model_executor/model_loader/weight_utils.py": """

DUMP_ACTS = "/var/tmp/act-{}.npy"


def dump(i, activations):
    import numpy as np

    np.save(DUMP_ACTS.format(i), activations)
""",
    },
    debug_files=DebugFiles("/var/tmp/act-*.npy", 12, 9_400_000),  # noqa: S108
    forbidden_config_keys=("quantization_config",),
    serve_options=("--max-model-len", "32768"),
    index_path="second",
)

# A few packages, nothing out of step and nothing left behind: for tests of all that can fail.
# Beside them the index offers what does not go with them.
_ALL_BUT_A_FEW = frozenset(lock()) - {
    "fastapi",
    "flashinfer-python",
    "numpy",
    "nvidia-cutlass-dsl",
    "psutil",
    "pydantic",
    "requests",
    "tokenizers",
    "torch",
    "transformers",
    "uvicorn",
}

SMALL = Story(
    key="small",
    service="small",
    unit="vllm-small.service",
    user="vllm",
    data_path="/opt/vllm",
    environment="/opt/vllm/env",
    port=8100,
    model="/models/small",
    model_config={
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "vocab_size": 512,
        "torch_dtype": "bfloat16",
    },
    served_model="small",
    old=Release(
        version="0.16.0rc2.dev340+g1a2b3c4d5",
        commit="1a2b3c4d5eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
        flashinfer="0.6.4",
        left_out=_ALL_BUT_A_FEW,
    ),
    nightly=Release(
        version="0.16.0rc2.dev347+g6f7a8b9c0",
        commit="6f7a8b9c0fffffffffffffffffffffffffffffff",
        flashinfer="0.6.4",
        asks=("numpy<2.3", "nvidia-cutlass-dsl==4.8.1"),
        left_out=_ALL_BUT_A_FEW,
    ),
    cubin="0.6.4",
    offered_cubins=("0.6.3", "0.6.4"),
    markers=("DUMP_ACTS",),
    debug_code={},
    debug_files=DebugFiles("/tmp/*.pt", 2, 2_000),  # noqa: S108
    forbidden_config_keys=("quantization_config",),
    serve_options=("--tensor-parallel-size", "2"),
    index_path="small",
    offered=(
        ("numpy", "2.4.0"),
        ("nvidia-cutlass-dsl", "4.5.0"),
        ("torch", "2.8.0"),
        ("transformers", "5.0.0"),
    ),
    api_key="small-key-of-the-sandbox",
)

EMBED = Story(
    key="embed",
    service="embed",
    unit="vllm-embed.service",
    user="vllm",
    data_path="/opt/vllm",
    environment="/opt/vllm/env",
    port=8200,
    model="/models/embed",
    model_config={
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "vocab_size": 512,
        "torch_dtype": "bfloat16",
    },
    served_model="embed",
    old=Release(
        version="0.16.0rc2.dev341+g2b3c4d5e6",
        commit="2b3c4d5e6eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
        flashinfer="0.6.4",
        left_out=_ALL_BUT_A_FEW,
    ),
    nightly=Release(
        version="0.16.0rc2.dev348+g7a8b9c0d1",
        commit="7a8b9c0d1fffffffffffffffffffffffffffffff",
        flashinfer="0.6.4",
        left_out=_ALL_BUT_A_FEW,
    ),
    cubin="0.6.4",
    offered_cubins=("0.6.4",),
    markers=("DUMP_ACTS",),
    debug_code={},
    debug_files=DebugFiles("/tmp/*.pt", 2, 2_000),  # noqa: S108
    forbidden_config_keys=("quantization_config",),
    serve_options=("--runner", "pooling", "--convert", "embed"),
    index_path="embed",
    api_key="embed-key-of-the-sandbox",
    listen="127.0.0.1",
)

STORIES: dict[str, Story] = {story.key: story for story in (KIMI, SECOND, SMALL, EMBED)}
