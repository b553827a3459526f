"""GPUs: their memory, who holds it, the driver, the hardware, and the links between them."""

import re

from tasks.diagnosis import strict
from tasks.diagnosis.rules.acts import Act, DropIn, EndLeftOvers
from tasks.diagnosis.rules.model import (
    Captured,
    Rule,
    always,
    both,
    by,
    either,
    holds,
    left_overs_of,
    says,
    somewhere,
)
from tasks.diagnosis.symptoms import Symptoms

_LEFT_OVER = r"(?P<unit>\S+): Found left-over process (?P<pid>\d+) \((?P<name>[^)]*)\)"
_FREE_MEMORY = r"Free memory on device \S+ \(.{1,60}\) on startup is less than desired"


def _end_left_overs(symptoms: Symptoms, captured: Captured) -> tuple[Act, ...]:
    unit = strict.unit(symptoms.facts.unit or captured.get("unit", ""))
    return (EndLeftOvers(unit=unit),) if unit else ()


def _is_ours(symptoms: Symptoms, captured: Captured) -> str | None:
    here = symptoms.facts.unit
    if here not in (None, captured["unit"]):
        return f"the left-over process is one of {captured['unit']}"
    if captured["name"].startswith(("VLLM::", "vllm", "EngineCor", "python")):
        return None
    return "the left-over process is no engine of vLLM"


RULES = (
    Rule(
        name="left-over-holds-gpu",
        kind="gpu-held",
        match=holds(
            lambda symptoms: symptoms.death.kind == "gpus-busy" and bool(symptoms.facts.left_overs)
        ),
        explanation="A process that an earlier start of this unit has left over still holds the "
        "service's GPUs.",
        advice="End what is left in this unit's own control group, then start again. "
        "KillMode=mixed keeps it from coming back.",
        safety="auto",
        acts=_end_left_overs,
        still_wrong=left_overs_of,
        undo="Nothing is to be taken back: the process served nobody.",
    ),
    Rule(
        name="orphan-holds-gpu",
        kind="gpu-held",
        match=both(
            somewhere(_LEFT_OVER),
            either(says(_FREE_MEMORY), by("systemd", _LEFT_OVER), says(_LEFT_OVER)),
        ),
        guard=_is_ours,
        explanation="An engine of the run before survived (pid {pid}) and still holds the GPU.",
        advice="End what is left in this unit's own control group, wait until the GPU's memory is "
        "back, start again. KillMode=mixed and RestartSec=10 keep it from coming back.",
        safety="auto",
        acts=_end_left_overs,
        still_wrong=left_overs_of,
        undo="Nothing is to be taken back: the process served nobody.",
    ),
    Rule(
        name="gpu-held-by-others",
        kind="gpu-held",
        match=says(_FREE_MEMORY + r"|(?i:devices? (?:is|are) busy or unavailable)"),
        explanation="Somebody else holds the GPU's memory before this service has begun.",
        advice="Find it with nvidia-smi. What is not this unit's own is never ended by itself.",
        safety="human",
    ),
    Rule(
        name="kv-cache-too-small",
        kind="gpu-memory",
        match=says(
            r"To serve at least one request with the models?'s max seq len|larger than the "
            r"available KV cache memory|No available memory for the cache blocks"
        ),
        explanation="What the weights leave is not enough for one request of the longest length.",
        advice="Set --max-model-len to at most the estimate that is printed, or give more memory. "
        "If the same command fitted before, this version needs more: go back.",
    ),
    Rule(
        name="gpu-out-of-memory",
        kind="gpu-memory",
        match=says(
            r"(?:CUDA|HIP) out of memory|\bOutOfMemoryError\b|CUBLAS_STATUS_ALLOC_FAILED|"
            r"CUDA_ERROR_OUT_OF_MEMORY|CUDA error: out of memory"
        ),
        explanation="The model, its KV cache or the warm-up does not fit into the GPUs' memory as "
        "this version uses it.",
        advice="Look at who else holds the GPUs, then at --gpu-memory-utilization, --max-model-len "
        "and --max-num-seqs; or go back. Flags are never changed by themselves.",
    ),
    Rule(
        name="symm-mem-rendezvous",
        kind="nccl-dist",
        match=says(
            r"system not yet initialized|(?i:multicast|symmetric memory|CUDA driver error)",
            where=r"symm_mem|_symmetric_memory|device_communicators|/distributed/",
        ),
        explanation="Symmetric memory between the GPUs needs NVLink multicast, which is not there; "
        "plain CUDA works.",
        advice="Start with VLLM_ALLREDUCE_USE_SYMM_MEM=0 in the unit's environment.",
        safety="auto",
        acts=always(DropIn(lines=("Environment=VLLM_ALLREDUCE_USE_SYMM_MEM=0",))),
        undo="Remove the drop-in.",
    ),
    Rule(
        name="symm-mem-system-not-initialized",
        kind="nccl-dist",
        match=says(r"CUDA driver error: system not yet initialized"),
        explanation="Symmetric memory between the GPUs needs NVLink multicast, which is not there; "
        "plain CUDA works.",
        advice="Start with VLLM_ALLREDUCE_USE_SYMM_MEM=0. On a host with NVSwitch look at "
        "nvidia-fabricmanager first.",
    ),
    Rule(
        name="fabric-manager",
        kind="driver-cuda",
        match=says(r"Error 802: system not yet initialized|cudaErrorSystemNotReady"),
        explanation="The GPUs wait for nvidia-fabricmanager, which does not run or is not of the "
        "driver's version; nvidia-smi lists all of them even so.",
        advice="Compare its version with the driver's; where they are equal, start it. Order the "
        "unit After=nvidia-fabricmanager.service.",
    ),
    Rule(
        name="driver-not-covered",
        kind="driver-cuda",
        match=says(
            r"Error 80[34]: |forward compatibility was attempted|driver/library version mismatch|"
            r"API mismatch|unsupported display driver / cuda driver combination"
        ),
        explanation="The driver and the CUDA libraries that are loaded do not go together.",
        advice="Use wheels for the driver's CUDA and no compat libraries, or plan a driver "
        "upgrade. A driver changed without a reboot needs one.",
        safety="human",
    ),
    Rule(
        name="driver-too-old",
        kind="driver-cuda",
        match=says(
            r"(?i)NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)|"
            r"CUDA driver version is insufficient|provided PTX was compiled with an unsupported"
        ),
        explanation="The wheels were built for a newer CUDA than the driver speaks.",
        advice="Install the variant of vLLM and torch that the driver covers (12080 means CUDA "
        "12.8). A driver upgrade is a job of its own.",
    ),
    Rule(
        name="no-gpu-for-this-build",
        kind="driver-cuda",
        match=says(r"no kernel image is available|CUDA error: invalid device function"),
        explanation="What is installed was not built for this GPU's architecture.",
        advice="Install the variant that has this architecture.",
    ),
    Rule(
        name="no-device-found",
        kind="driver-cuda",
        match=says(
            r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver|"
            r"no CUDA-capable device|NVML.{0,40}(?:not found|Uninitialized|Not Supported|Unknown)"
        ),
        explanation="vLLM sees no GPU: the NVML module is shadowed, the driver does not answer, or "
        "this is a build without CUDA.",
        advice="Ask nvidia-smi first. If it answers: remove pynvml, install nvidia-ml-py anew. If "
        "it does not, the driver is at fault.",
    ),
    Rule(
        name="gpu-hardware",
        kind="gpu-hardware",
        match=either(
            by("kernel", r"Xid|SXid|fallen off the bus"),
            says(
                r"(?i)uncorrectable (?:\w+ )?ECC|fallen off the bus|GPU is lost|Xid \d+|"
                r"uncorrectable NVLink"
            ),
        ),
        explanation="A GPU failed. vLLM can do nothing about it.",
        advice="Drain the host, look at the kernel's journal, reset or power-cycle once; if it "
        "comes back, replace the card. Do not let vLLM restart in a loop.",
        safety="human",
    ),
    Rule(
        name="unreachable-host-address",
        kind="nccl-dist",
        match=says(
            r"client socket has timed out after|\[c10d\].{0,80}(?:timed out|failed to connect)|"
            r"DistNetworkError|DistStoreError|Gloo connectFullMesh"
        ),
        explanation="The processes do not reach each other at the address that vLLM has picked.",
        advice="Set VLLM_HOST_IP, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to an interface that "
        "works.",
    ),
    Rule(
        name="nccl-failed",
        kind="nccl-dist",
        match=says(
            r"NCCL error|DistBackendError|ncclSystemError|ncclInternalError|ncclInvalidUsage"
        ),
        explanation="The GPUs could not be joined to one group.",
        advice="Look for the first worker that failed; NCCL_DEBUG=WARN says more.",
    ),
    Rule(
        name="waits-for-a-peer",
        kind="nccl-dist",
        match=holds(
            lambda symptoms: _last_words(symptoms, r"No available shared memory broadcast")
        ),
        explanation="The workers wait for each other and nobody fails. The log does not say why; "
        "GPUs that cannot reach each other over PCIe are the usual reason, a long compile another.",
        advice="If the GPUs show 100 % at idle power: probe with NCCL_P2P_DISABLE=1 and "
        "--disable-custom-all-reduce. For good: iommu=pt, ACS off.",
    ),
    Rule(
        name="stands-in-nccl",
        kind="hang",
        match=holds(
            lambda symptoms: _last_words(symptoms, r"(?i)nccl==|rendezvous|symm_mem|init.*nccl")
        ),
        explanation="The start stands where the GPUs are joined to one group, and says no more. "
        "GPUs of the fabric that are hidden from the service are a known reason.",
        advice="Start with VLLM_ALLREDUCE_USE_SYMM_MEM=0, or show the service all GPUs.",
    ),
)


def _last_words(symptoms: Symptoms, pattern: str) -> bool:
    cause = symptoms.root_cause
    return (
        symptoms.hangs and cause is not None and re.search(pattern, cause.text[:2000]) is not None
    )
