"""The kind of a failure that no rule knows: a guess by who failed, in which words, and where.

It only sorts. No remedy follows from it.
"""

import re

from tasks.diagnosis.rootcause import RootCause
from tasks.diagnosis.statements import Weight

UNKNOWN = "unknown"

_BY_PROCESS: dict[str, tuple[tuple[str, str], ...]] = {
    "kernel": (
        ("driver-cuda", r"API mismatch|RmInitAdapter|rm_init"),
        ("host-memory", r"(?i)out of memory|oom"),
        ("limits", r"I/O error|-fs error"),
        ("runtime-crash", r"segfault|traps:|general protection"),
        ("gpu-hardware", r""),
    ),
    "systemd": (
        ("host-memory", r"(?i)\boom\b|out of memory"),
        ("startup-timeout", r"start operation timed out"),
        ("gpu-held", r"left-over process"),
        ("runtime-crash", r"code=dumped|code=killed|status=1/"),
        ("cli-config", r"status=2/INVALIDARGUMENT"),
        ("systemd", r""),
    ),
    "uv": (
        ("limits", r"(?i)no space left|os error (?:28|122)|too many open files|disk quota"),
        ("installer", r""),
    ),
}

_BY_WORDS: tuple[tuple[str, str], ...] = (
    (
        "cli-config",
        r"(?i)unrecognized arguments|user-specified|: error: (?:argument|the following|ambiguous)|"
        r"invalid choice|input should be",
    ),
    ("port", r"(?i)address already in use|EADDRINUSE|errno 98\b|attempting to bind on address"),
    (
        "limits",
        r"(?i)too many open files|errno 24\b|errno 28\b|no space left|disk quota|errno 122\b|"
        r"can't start new thread|pthread_create failed|RLIMIT|resource temporarily unavailable|"
        r"read-only file system|errno 30\b|inotify|locked memory|memlock",
    ),
    (
        "gpu-hardware",
        r"(?i)\bECC\b|fallen off the bus|\bXid\b|GPU is lost|row.?remap|hardware error|"
        r"nvlink (?:error|fault)|device (?:was )?lost",
    ),
    (
        "gpu-held",
        r"(?i)used by other processes|devices? (?:is|are) busy or unavailable|left-over process|"
        r"exclusive[- ]process",
    ),
    (
        "host-memory",
        r"(?i)cannot allocate memory|\bMemoryError\b|errno 12\b|std::bad_alloc|"
        r"available memory on node|cpu memory|DefaultCPUAllocator|swap space|host memory|"
        r"out of memory: killed|/dev/shm|insufficient shared memory|cudaHostAlloc|hugepage",
    ),
    (
        "kv-cache-assert",
        r"(?i)kv cache (?:manager|spec|group|config|layout|block)s?\b|kv_cache_(?:spec|group|"
        r"config|manager)|"
        r"num_(?:gpu_)?blocks|block_size|page.?size",
    ),
    (
        "gpu-memory",
        r"(?i)out of memory|OutOfMemoryError|\bOOM\b|kv cache memory|memory for the cache blocks|"
        r"gpu[ _]memory[ _]utili[sz]ation|larger than the available|CUDA_ERROR_OUT_OF_MEMORY|"
        r"CUBLAS_STATUS_ALLOC_FAILED|estimated maximum model length|not enough (?:gpu |"
        r"free )?memory",
    ),
    (
        "startup-timeout",
        r"(?i)timed out waiting for engine|engine_ready_timeout|timed? ?out.{0,60}(?:start|ready|"
        r"init)|"
        r"not (?:become )?ready (?:with)?in",
    ),
    (
        "nccl-dist",
        r"(?i)\bnccl|c10d|distnetwork|distbackend|diststore|rendezvous|\bgloo|tcpstore|symm_?mem|"
        r"symmetric.memory|processgroup|init_process_group|shared memory broadcast|nvshmem|"
        r"infiniband|"
        r"ibv_|\bucx|rdma|all_?reduce|\bp2p\b|multicast|mnnvl|VLLM_HOST_IP|socket\.cpp|"
        r"placement group|ray cluster",
    ),
    (
        "hub-access",
        r"(?i)gated repo|client error|huggingface_hub|hf_hub|hf_token|repositorynotfound|"
        r"localentrynotfound|offline ?mode|couldn't connect|max retries|name resolution|"
        r"name or service|download(?:ing|ed)?\b|connecttimeout|huggingface\.co|proxyerror|sslerror|"
        r"certificate|cached snapshot|too many requests|\b(?:401|403|404|429|50[234])\b.*url|"
        r"tiktoken|modelscope|connection refused|unauthorized|is not a valid model identifier",
    ),
    (
        "driver-cuda",
        r"(?i)nvidia driver|driver version|driver.{0,20}too old|forward compat|cudaGetDeviceCount|"
        r"no cuda.capable|no nvidia driver|\bnvml|infer device type|libcuda\.so|libnvidia|"
        r"no kernel image|system not yet initialized|unsupported (?:ptx )?toolchain|"
        r"insufficient ?driver|version mismatch.*nvml|cuda driver (?:error|init)|no cuda gpus|"
        r"cuda (?:unknown error|is not available|initialization)|invalid device ordinal|"
        r"nvidia-smi|provided PTX",
    ),
    (
        "toolchain-jit",
        r"(?i)\bnvcc\b|'ninja'|\bninja[: ]|ptxas|nvlink fatal|\bcicc\b|\bgcc\b|g\+\+|cc1plus|"
        r"c compiler|cuda_home|torch_extensions|cpp_extension|python\.h|triton.{0,40}compil|"
        r"error building|compil(?:e|ation|ing) (?:error|failed|of)|\bNVRTC|\.cuh?\(\d+\)|collect2|"
        r"gpu architecture|CalledProcessError|jit (?:compil|cache|build)|inductor|"
        r"codegen|llvm|CompilationError|\.cubin|\.fatbin",
    ),
    (
        "web-stack",
        r"(?i)pydantic\.errors|pydanticuser|pydanticschema|typeddict|fastapi|starlette|uvicorn|"
        r"prometheus_(?:client|fastapi)|httptools|uvloop|anyio|python-multipart|ssl_(?:cert|key)|"
        r"duplicated timeseries|api router",
    ),
    (
        "model-files",
        r"(?i)safetensor|deserializ|checkpoint|weights? (?:file|were|not|is missing)|\bshard|"
        r"weight files|invalid repository id or local directory|git.?lfs|corrupt|truncat|"
        r"pytorchstreamreader|unpickling|no such file.{0,80}(?:model|config|token|\.json|\.bin)|"
        r"incomplete|no model weights|cannot find any model|load(?:ing)? vocabulary|"
        r"tokenizer\.json|"
        r"header too|zip archive|gguf|params\.json|preprocessor_config",
    ),
    (
        "kv-cache-assert",
        r"(?i)kv.?cache.{0,60}(?:assert|uni(?:fy|fied|form)|convert|mismatch)|kv_cache_utils",
    ),
    (
        "model-config",
        r"(?i)model architectures?|model_?type|trust_remote_code|custom code|config\.json|"
        r"quanti[sz]ation (?:method|config)|rope_?(?:scaling|parameters|theta)|chat.?template|"
        r"attention heads|divisible|vocab|not supported for (?:this )?model|hidden_size|tokenizer|"
        r"unrecognized model|hf_config|size mismatch|shape mismatch|no module or parameter named|"
        r"expert|multimodal|max_position|architectures|pooling|generation_config",
    ),
    (
        "cli-config",
        r"(?i): error: |unrecognized arguments|invalid choice|expected (?:one|at least)|"
        r"value error|"
        r"input should be|validation error|--[a-z][\w-]+|environment variable|max_model_len|"
        r"cannot be used (?:with|together)|not supported with|mutually exclusive|must be (?:a|"
        r"one|set|"
        r"greater|less|positive|>|<|=)|is greater than|tensor.parallel|pipeline.parallel|"
        r"kv cache.{0,40}requires|not compatible with|backend .{0,40}not (?:valid|supported)|"
        r"is not supported (?:on|for|by|with)|\bargument\b|VLLM_[A-Z_]+|json\.decoder|unsupported",
    ),
    (
        "version-skew",
        r"(?i)importerror|modulenotfound|cannot import name|no module named|undefined symbol|"
        r"has no attribute|does not match|incompatible|not compatible|version|unexpected keyword|"
        r"positional arguments?|already (?:used|registered|defined)|duplicate template|outdated|"
        r"operator .{0,40}does not exist|could not run '|glibc|shared object|packagenotfound|abi\b|"
        r"compiled (?:using|with|against)|deprecated|missing \d+ required|numpy|is not defined|"
        r"symbol lookup|entry.?points?|circular import|dtype size changed|object has no",
    ),
    (
        "runtime-crash",
        r"(?i)died unexpectedly|illegal memory|device-side assert|segmentation|bus error|aborted|"
        r"illegal instruction|fatal python|launch failure|misaligned|core dumped|terminate called|"
        r"cuda error|cublas|cudnn|exit code: -|killed|nan\b",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _BY_WORDS)
_IMPORTS = frozenset({"ImportError", "ModuleNotFoundError", "PackageNotFoundError"})
_OF_THE_DRIVER = re.compile(r"libcuda\.so|libnvidia|libnvcuvid")
_OF_A_BUILD = re.compile(r"torch_extensions|\.cache/|/jit/|cpp_extension")
_DISTRIBUTED = re.compile(r"/distributed/|pynccl|symm_mem|parallel_state")
_ADVICE = re.compile(
    r"(?<=[.:;)] )(?:please|alternatively|try|decrease|increase|consider|to (?:allow|enable|fix)|"
    r"make sure|"
    r"this (?:is often|may|can|typically|usually)|you (?:can|may|should)|if you|see |set |use |"
    r"did you|for more|reduce|check|run |install )",
    re.IGNORECASE,
)
_FRAMES = (
    ("model-files", re.compile(r"/(?:safetensors|gguf)/|weight_utils\.py")),
    ("model-config", re.compile(r"/models/|/model_loader/|/transformers_utils/|config/model\.py")),
    ("nccl-dist", re.compile(r"/distributed/|pynccl|parallel_state")),
    ("toolchain-jit", re.compile(r"/flashinfer/jit|/_inductor/|/triton/|cpp_extension|/deep_gemm")),
    ("kv-cache-assert", re.compile(r"kv_cache")),
    ("web-stack", re.compile(r"/(?:fastapi|starlette|uvicorn|pydantic)/")),
    ("cli-config", re.compile(r"arg_utils|/config/")),
)


def guess(cause: RootCause | None) -> str:
    """Return the kind that a root cause looks like; `unknown` where nothing speaks for one."""
    if cause is None:
        return UNKNOWN
    if cause.weight in (Weight.HANGS, Weight.STANDS):
        return _of_a_hang(cause.text)
    if cause.process in _BY_PROCESS:
        rows = _BY_PROCESS[cause.process]
        return next(kind for kind, pattern in rows if re.search(pattern, cause.text[:2000]))
    claim = _claim(cause.text)
    return (
        _of_an_import(cause, claim)
        or _by_words(claim)
        or _by_frames(cause)
        or _by_words(cause.text)
        or _by_words("\n".join(cause.raised_from))
        or UNKNOWN
    )


def _claim(text: str) -> str:
    """Return what failed, without the program's advice on what to do about it."""
    advice = _ADVICE.search(text, 20)
    return text[: advice.start()] if advice else text


def _of_an_import(cause: RootCause, claim: str) -> str | None:
    """Sort what fails while it is imported, and what fails between machines, by that alone."""
    name = (cause.exception or "").rpartition(".")[2]
    if name in _IMPORTS:
        if _OF_A_BUILD.search(claim):
            return "toolchain-jit"
        return "driver-cuda" if _OF_THE_DRIVER.search(claim) else "version-skew"
    if any(_DISTRIBUTED.search(frame.file) for frame in cause.frames[-3:]):
        return "nccl-dist" if _by_words(claim) in ("driver-cuda", "runtime-crash", None) else None
    return None


def _of_a_hang(text: str) -> str:
    if "Waiting: " in text:
        return "serving"
    return "nccl-dist" if "broadcast block" in text else "hang"


def _by_words(text: str) -> str | None:
    return next((kind for kind, words in _COMPILED if words.search(text[:2000])), None)


def _by_frames(cause: RootCause) -> str | None:
    last = [frame.file for frame in cause.frames[-3:]][::-1]
    return next((kind for file in last for kind, path in _FRAMES if path.search(file)), None)
