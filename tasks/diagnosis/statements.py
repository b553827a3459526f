"""Failures that are said in one line and are no traceback: by a tool, systemd, the kernel, anybody.

A pattern names a *way of speaking* (a compiler's `fatal`, a resolver's `Because`, a loader's
`undefined symbol`), not one failure.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from tasks.diagnosis.journal import Entry
from tasks.diagnosis.tracebacks import Line


class Weight(IntEnum):
    """How much a line is worth as the cause; the smallest that there is decides."""

    FAILED = 0
    """It names a failure of its own."""
    SAID = 1
    """Somebody logged it as an error, and it may be harmless."""
    ECHO = 2
    """A neighbour's failure, seen from outside: a closed connection, a report of a child."""
    DIED = 3
    """That it died, not of what."""
    HANGS = 4
    STANDS = 5
    """The last line of a start that came to no end."""
    STOPPED = 6
    """What systemd says when all is over."""


@dataclass(frozen=True)
class _Kind:
    pattern: re.Pattern[str]
    weight: Weight
    process: str | None = None
    by: re.Pattern[str] | None = None


_SYSTEMD = re.compile(r"systemd|\(.*\)")
_KERNEL = re.compile(r"kernel|")
_DMESG = r"(?:kernel: |\[ *\d+\.\d+\] )?"


def _kernel(pattern: str, weight: Weight = Weight.FAILED) -> _Kind:
    return _Kind(re.compile(_DMESG + rf"(?:{pattern})"), weight, "kernel", _KERNEL)


def _systemd(pattern: str, weight: Weight = Weight.FAILED) -> _Kind:
    return _Kind(re.compile(rf"\S+: (?:{pattern})"), weight, "systemd", _SYSTEMD)


def _anybody(pattern: str, weight: Weight = Weight.FAILED, process: str | None = None) -> _Kind:
    return _Kind(re.compile(pattern), weight, process)


_KINDS = (
    _kernel(r"NVRM: (?:Xid \(|API mismatch|GPU .*fallen off|.*(?:RmInitAdapter|rm_init) failed)"),
    _kernel(r".*\bSXid\b|.*Out of memory: Killed process \d+|Memory cgroup out of memory"),
    _kernel(r"oom-kill:|.*invoked oom-killer", Weight.SAID),
    _kernel(r"(?:blk_update_request: )?I/O error, dev |\S+-fs error |mce: .*Hardware Error"),
    _kernel(r".*\b(?:segfault at|traps: |general protection)", Weight.DIED),
    _systemd(r"Failed at step \w+ spawning |Failed to (?:set up|load|determine|run|spawn|open) "),
    _systemd(r".*(?:bad unit file setting|start operation timed out|killed by the OOM killer)"),
    _systemd(r"(?:Failed to locate|Unable to locate) executable ", Weight.SAID),
    _systemd(r"Main process exited, code=exited, status=2\d\d/[A-Z_]+", Weight.SAID),
    _systemd(r"(?:Main|Control) process exited, code=dumped", Weight.DIED),
    _systemd(r"(?:Main|Control) process exited, code=(?:killed|exited)", Weight.STOPPED),
    _systemd(r"Start request repeated too quickly", Weight.STOPPED),
    _anybody(r"(?:Worker|Engine core) proc \S+ died unexpectedly"),
    _anybody(
        r"(?:nvcc|ptxas|nvlink|cicc|cudafe\+\+|clang\S*|gcc|g\+\+|cc1plus)\s*:?\s+(?:fatal|error)"
    ),
    _anybody(r"\S*(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal |catastrophic )?error\b.{0,9}: "),
    _anybody(r"(?:/usr)?(?:/bin/)?(?:ba|da)?sh: .*(?:not found|No such file|denied|interpreter)"),
    _anybody(r"(?:\S*/)?(?:ld|collect2|lld|cmake|make)(?: error|: (?:error|cannot|fatal))"),
    _anybody(
        r"\S+: (?:error while loading shared|symbol lookup error|undefined symbol|relocation error|"
        r"\S+: (?:version `\S+' not found|undefined symbol|cannot open shared object))"
    ),
    _anybody(r"[\s\u00d7╰─▶└├|·:+-]*(?:error: |cause: )?(?:And b|B)ecause \S+", process="uv"),
    _anybody(
        r"(?:Could not (?:find a version that satisfies|open requirements|install packages)|"
        r"Cannot install \S+|Failed (?:to build|building wheel)|\S+ has requirement )",
        process="uv",
    ),
    _anybody(r"Package `\S+` was included as a URL dependency", process="uv"),
    _anybody(r"\s*(?:╰─▶|├─▶|cause:|Caused by:) \S", process="uv"),
    _anybody(r"\s*\u00d7 \S", Weight.SAID, "uv"),
    _anybody(r"error: \S", Weight.SAID, "uv"),
    _anybody(r"[\w./-]+(?: [\w-]+){0,2}: (?:fatal )?error: ."),
    _anybody(r"Fatal Python error: .|\s+what\(\):\s+\S|.*\bassertion .* failed\b"),
    _anybody(r"(?i)(?:fatal(?: error)?|panic(?:ked)?|abort(?:ed)?): \S"),
    _anybody(r"terminate called after throwing an instance of ", Weight.SAID),
    _anybody(r"thread '.*' panicked at "),
    _anybody(
        r"\s*(?:Value error|Assertion failed), \S|.*\[type=\w+, input_value=|\s+Input should be "
    ),
    _anybody(
        r"(?:Illegal instruction|Segmentation fault|Bus error|Aborted|Killed)"
        r"(?: +\(core dumped\))?$",
        Weight.DIED,
    ),
    _anybody(r"No available shared memory broadcast block found in ", Weight.HANGS),
    _anybody(r".*Running: 0 reqs, Waiting: [1-9]\d* reqs", Weight.HANGS),
)

_EXCEPTION = re.compile(
    r"(?P<exception>(?:[A-Za-z_]\w*\.)*[A-Z]?\w*(?:Error|Exception|Expired|NotFound|Refused|"
    r"Failure|Exit|Interrupt|Abort|Again))(?:: (?P<message>\S.*)|:?$)"
)
_HEADING = re.compile(
    r"(?i).{0,60}(?:failed to start|hit an exception|encountered a fatal error|"
    r"output_handler failed|error in inspecting model|exception in asgi application|"
    r"traceback for|exception in worker|worker process died)\b.{0,80}$"
)
_LOUD_LINE = re.compile(r"\S.{5}")
_FRAME_LIKE = re.compile(r"\s|\^+$|[~^]|File \"|Traceback |During handling|The above exception")
_C10D = re.compile(r"\[E\d* [^\]]*\] ")
_ECHO = re.compile(
    r"(?i)connection (?:was )?(?:closed|reset) by|broken pipe|remote process exited|"
    r"ncclremoteerror|socketprogress|software caused connection abort|\bEOFError\b|"
    r"ConnectionResetError|recvvalue failed|sendbytes failed|heartbeatmonitor|"
    r"unhandled cuda error, nccl|processgroup .*destroy|watchdog (?:thread|caught)|"
    r"build (?:failed|stopped)|subprocess-exited|non-zero exit status|CalledProcessError|"
    r"failed to be inspected|internal triton ptx codegen|no valid triton configs|"
    r"BackendCompilerFailed|ResolutionImpossible|No matching distribution|"
    r"^fatal: an? error occurred|\bEngineGenerateError"
)
_CONSEQUENCE = re.compile(
    r"(?i)see root cause above|see (?:the )?stack ?trace (?:\(?above\)? )?for (?:the )?root cause|"
    r"check the stack trace above for the root cause|\bEngineDeadError\b|"
    r"failed core proc\(s\)|background process\. see stack|"
    r"^(?:\S+: )?Executor failed\.?$|^(?:SystemExit|KeyboardInterrupt|\S*CancelledError)\b|"
    r"^(?:\S+: )?\d+ validation errors? for|^pip's dependency resolver|^(?:\S+: )?cancelled$"
)


@dataclass(frozen=True)
class Statement:
    """A line that names a failure, and how much it is worth."""

    weight: Weight
    process: str | None
    exception: str | None
    message: str


def is_consequence(text: str) -> bool:
    """Whether a failure only points to another one."""
    return _CONSEQUENCE.search(text[:4000]) is not None


def is_echo(text: str) -> bool:
    """Whether it is a neighbour's or a child's failure, seen from outside."""
    return _ECHO.search(text[:4000]) is not None


def statement(entry: Entry, line: Line) -> Statement | None:
    """Return what a line says failed, or None.

    Args:
        entry: the journal's line; systemd and the kernel are believed only in their own name.
        line: the same without the program's prefixes.
    """
    text = line.text[:2000]
    found = _said(entry, line, text)
    if found is None and line.level in (None, "ERROR", "CRITICAL"):
        found = _exception(text) or _loud(line, text)
    if found is None or (found.process is None and line.level in ("WARNING", "INFO", "DEBUG")):
        return found if found and found.weight is Weight.HANGS else None
    if found.weight < Weight.ECHO and is_echo(text):
        return Statement(Weight.ECHO, found.process, found.exception, found.message)
    return found


def _said(entry: Entry, line: Line, text: str) -> Statement | None:
    for kind in _KINDS:
        if kind.by and not _speaks(kind.by, entry, text):
            continue
        if kind.pattern.match(text):
            process = kind.process
            if process == "uv" and line.process:
                continue  # one of vLLM's own processes is no installer
            return Statement(kind.weight, process, None, text)
    return None


def _speaks(by: re.Pattern[str], entry: Entry, text: str) -> bool:
    """Whether the one speaks who alone may say this; in bare output its name is in the text."""
    if entry.identifier is None:
        return by is _KERNEL or ".service: " in text
    return by.fullmatch(entry.identifier) is not None and bool(entry.identifier)


def _exception(text: str) -> Statement | None:
    match = _EXCEPTION.match(text)
    if not match:
        return None
    return Statement(Weight.FAILED, None, match["exception"], match["message"] or "")


def _loud(line: Line, text: str) -> Statement | None:
    if _C10D.match(text):
        return Statement(Weight.SAID, None, None, text)
    quiet = line.level not in ("ERROR", "CRITICAL") or not _LOUD_LINE.match(text)
    if quiet or _FRAME_LIKE.match(text) or _HEADING.match(text):
        return None
    return Statement(Weight.SAID, None, None, text)
