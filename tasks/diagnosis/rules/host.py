"""The host: systemd, ports, limits, memory, compilers and their caches."""

import re

from tasks.diagnosis import strict
from tasks.diagnosis.rules.acts import Act, DropIn, EndLeftOvers, GoBack, SetAside, StartAgain
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

_BUILD_DIR = re.compile(r"(?P<dir>/\S+/torch_extensions/[\w./-]+)/[\w.-]+\.so$")


_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _start_again(_: Symptoms, captured: Captured) -> tuple[Act, ...]:
    unit = strict.unit(captured["unit"])
    return (StartAgain(unit=unit),) if unit else ()


def _end_left_overs(symptoms: Symptoms, _: Captured) -> tuple[Act, ...]:
    unit = strict.unit(symptoms.facts.unit or "")
    return (EndLeftOvers(unit=unit),) if unit else ()


def _own_programs_first(symptoms: Symptoms, _: Captured) -> tuple[Act, ...]:
    """The environment's programs before those that the service finds already."""
    folder = strict.path(symptoms.facts.bin)
    found = (symptoms.facts.path or _SYSTEM_PATH).split(":")
    others = [one for one in found if one != folder and strict.path(one)]
    return (DropIn(lines=(f"Environment=PATH={':'.join((folder, *others))}",)),) if folder else ()


def _has_ninja(symptoms: Symptoms, _: Captured) -> str | None:
    known = symptoms.facts.are_known and not symptoms.facts.brings_ninja
    return "the environment itself has no ninja" if known else None


def _set_aside(_: Symptoms, captured: Captured) -> tuple[Act, ...]:
    found = _BUILD_DIR.match(captured["file"])
    folder = strict.path(found["dir"]) if found else None
    if folder is None or "/.cache/" not in folder:
        return ()
    return (SetAside(path=folder),)


RULES = (
    Rule(
        name="left-over-on-port",
        kind="port",
        match=holds(
            lambda symptoms: symptoms.death.kind == "port-taken" and bool(symptoms.facts.left_overs)
        ),
        explanation="A process that an earlier start of this unit has left over listens on the "
        "service's port.",
        advice="End what is left in this unit's own control group, then start again. "
        "KillMode=mixed keeps it from coming back.",
        safety="auto",
        acts=_end_left_overs,
        still_wrong=left_overs_of,
        undo="Nothing is to be taken back: the process served nobody.",
    ),
    Rule(
        name="port-in-use",
        kind="port",
        match=either(
            says(r"\[Errno 98\]|[Aa]ddress already in use|EADDRINUSE"),
            holds(lambda symptoms: symptoms.death.kind == "port-taken"),
        ),
        explanation="Another process listens on the service's port.",
        advice="Find it with `ss -ltnp` on the host: a left-over of this service, or somebody "
        "else's. Stop it, or give this service another port.",
    ),
    Rule(
        name="service-folder-missing",
        kind="systemd",
        match=by("systemd", r"set up mount namespacing|step NAMESPACE"),
        explanation="A folder that the unit names for its sandbox is not there.",
        advice="Mount it or make it; do not make an empty one where a mount is missing. A `-` "
        "before the path makes it optional.",
    ),
    Rule(
        name="executable-missing",
        kind="systemd",
        match=by("systemd", r"step EXEC spawning (?P<file>\S+):|locate executable|status=203/EXEC"),
        explanation="systemd could not execute the service's program: the environment was moved, "
        "is half removed, or the script's interpreter is gone.",
        advice="Go back to the release before, which is complete. Look at the script's first line "
        "before the file itself.",
        safety="auto",
        acts=always(GoBack()),
        undo="Redeploy again.",
    ),
    Rule(
        name="unit-cannot-start",
        kind="systemd",
        match=by(
            "systemd",
            r"step \w+ spawning|Failed to (?:load|determine|set up|open|spawn|run)|"
            r"bad unit file|status=2\d\d/",
        ),
        explanation="systemd could not start the service as its unit asks: a user, a folder, a "
        "file or a permission that the unit names is not there.",
        advice="Read systemd's line: it names the step. Put the user, folder or file back, or "
        "correct the unit.",
    ),
    Rule(
        name="start-limit-hit",
        kind="systemd",
        match=both(
            holds(
                lambda symptoms: (
                    symptoms.root_cause is not None and symptoms.root_cause.weight.name == "STOPPED"
                )
            ),
            somewhere(
                r"(?P<unit>\S+\.service): (?:Start request repeated too quickly|Failed with "
                r"result 'start-limit-hit')"
            ),
        ),
        explanation="It failed so often and so fast that systemd starts it no more. Why is in the "
        "first failure of the series, before these lines.",
        advice="Diagnose the first failure. Once it is cured: `systemctl reset-failed`, then "
        "start.",
        safety="auto",
        acts=_start_again,
    ),
    Rule(
        name="dies-with-status-zero",
        kind="systemd",
        match=both(
            says(r"proc \S+ died unexpectedly"), somewhere(r"\.service: Deactivated successfully")
        ),
        explanation="A worker crashed, the server then ended with status 0: for systemd a success, "
        "so Restart=on-failure does nothing.",
        advice="Restart=always in the unit; then look at the worker's core dump.",
    ),
    Rule(
        name="too-many-open-files",
        kind="limits",
        match=says(r"(?i)too many open files|\[Errno 24\]"),
        explanation="The service may not open as many files as it needs.",
        advice="LimitNOFILE=65536 in a drop-in of the unit.",
        safety="auto",
        acts=always(DropIn(lines=("LimitNOFILE=65536",))),
        undo="Remove the drop-in.",
    ),
    Rule(
        name="disk-full",
        kind="limits",
        match=says(r"(?i)No space left on device|\[Errno 28\]|Disk quota exceeded|os error 28"),
        explanation="A disk is full.",
        advice="Find which one with `df`; nothing is removed by itself.",
        safety="human",
    ),
    Rule(
        name="host-out-of-memory",
        kind="host-memory",
        match=either(
            by("kernel", r"(?i)out of memory"),
            by("systemd", r"OOM killer"),
            says(
                r"Available memory on node|\bMemoryError\b|std::bad_alloc|\[Errno 12\]|"
                r"(?i:cannot allocate memory|DefaultCPUAllocator)"
            ),
            holds(lambda symptoms: symptoms.death.result == "oom-kill"),
        ),
        explanation="The host's memory was not enough.",
        advice="Look at `journalctl -k` for who used it, at MemoryMax= of the unit, and at what "
        "the service asks for.",
    ),
    Rule(
        name="engine-not-ready-in-time",
        kind="startup-timeout",
        match=says(
            r"Timed out waiting for engine|VLLM_ENGINE_READY_TIMEOUT_S|waiting for engines to send "
            r"initial message"
        ),
        explanation="The first start after an upgrade compiles kernels and takes longer than the "
        "engine is waited for.",
        advice="Give the first start more time: VLLM_ENGINE_READY_TIMEOUT_S, and TimeoutStartSec "
        "of "
        "the unit above it.",
        safety="auto",
        acts=always(
            DropIn(lines=("Environment=VLLM_ENGINE_READY_TIMEOUT_S=3600", "TimeoutStartSec=3900"))
        ),
        undo="Remove the drop-in.",
    ),
    Rule(
        name="ninja-not-on-path",
        kind="toolchain-jit",
        match=says(r"No such file or directory: '(?:\S*/)?ninja'|Ninja is required to load C\+\+"),
        explanation="The unit calls vLLM by its absolute path, so the environment's own programs, "
        "ninja among them, are not on its PATH.",
        advice="Environment=PATH= with the environment's bin first, in a drop-in.",
        safety="auto",
        guard=_has_ninja,
        acts=_own_programs_first,
        undo="Remove the drop-in.",
    ),
    Rule(
        name="extension-half-built",
        kind="toolchain-jit",
        match=says(r"(?P<file>/\S+/torch_extensions/\S+\.so): cannot open shared object file"),
        explanation="A torch extension is built when it is first used, and this build was broken "
        "off.",
        advice="Stop the service, move that extension's build folder aside (it is a cache), start "
        "again.",
        safety="auto",
        acts=_set_aside,
        undo="Move the folder back.",
    ),
    Rule(
        name="cuda-home-malformed",
        kind="toolchain-jit",
        match=says(r"(?:^|\s)(?::/|//)\S*/bin/nvcc\b"),
        explanation="CUDA_HOME is written like a search path: a `:` makes the compiler's path "
        "invalid.",
        advice="Correct CUDA_HOME in the unit's environment.",
    ),
    Rule(
        name="compiler-too-old",
        kind="toolchain-jit",
        match=says(
            r"Unsupported gpu architecture|is not defined for option 'gpu-name'|"
            r"(?:nvcc|ptxas|nvlink)\s+(?:fatal|error)"
        ),
        explanation="The CUDA compiler that is used does not know this GPU.",
        advice="Point CUDA_HOME (for Triton: TRITON_PTXAS_PATH) at a toolkit that does, or use "
        "prebuilt kernels.",
    ),
    Rule(
        name="compiler-missing",
        kind="toolchain-jit",
        match=says(
            r"(?i)No such file or directory: '(?:\S*/)?(?:nvcc|gcc|g\+\+|cc|c\+\+)'|"
            r"failed to find c "
            r"compiler|could not find (?:nvcc|cuda)|CUDA_HOME environment variable is not set|"
            r"Python\.h: No such file|nvcc: not found"
        ),
        explanation="Kernels are compiled when they are first used, and a compiler or its headers "
        "are not there.",
        advice="Install what is missing, put it on the unit's PATH, or use prebuilt kernels.",
    ),
)
