"""The failure that came first, told from those that only follow from it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis.journal import Entry
from tasks.diagnosis.tracebacks import Frame, Traceback, split, tracebacks

_CONSEQUENCE = re.compile(
    r"(?i)see root cause above|see (?:the )?stack ?trace (?:\(?above\)? )?for (?:the )?root cause|"
    r"check the stack trace above for the root cause|\bEngineDeadError\b|"
    r"^(?:\S+: )?Executor failed\.?$|^(?:SystemExit|KeyboardInterrupt|\S*CancelledError)\b"
)
_QUOTED = re.compile(r"Worker failed with error [\"'](?P<text>.*)[\"'], please check", re.DOTALL)
UNNAMED = "vllm"
_LOUD = frozenset({None, "ERROR", "CRITICAL"})


_FRAMES = (
    ("Worker", re.compile(r"/multiproc_executor\.py worker_main$")),
    ("EngineCore", re.compile(r"/core\.py run_engine_core$")),
    ("APIServer", re.compile(r"/bin/vllm |/vllm/entrypoints/")),
)


@dataclass(frozen=True)
class _Statement:
    """A failure that is one line and no traceback; `by` says who writes it, None: anybody."""

    pattern: re.Pattern[str]
    process: str | None = None
    by: re.Pattern[str] | None = None
    weak: bool = False


_SYSTEMD = re.compile(r"systemd|\(.*\)")
_KERNEL = re.compile(r"kernel")
_STATEMENTS = (
    _Statement(re.compile(r"NVRM: Xid \("), "kernel", _KERNEL),
    _Statement(re.compile(r"NVRM: API mismatch"), "kernel", _KERNEL),
    _Statement(re.compile(r"Out of memory: Killed process \d+"), "kernel", _KERNEL),
    _Statement(re.compile(r"\S+: Failed at step \w+ spawning "), "systemd", _SYSTEMD),
    _Statement(re.compile(r"\S+: Failed to (?:set up|load|determine) "), "systemd", _SYSTEMD),
    _Statement(re.compile(r"(?:Worker|Engine core) proc \S+ died unexpectedly")),
    _Statement(re.compile(r"[\w./-]+(?: [\w-]+)?: error: .")),
    _Statement(re.compile(r"Fatal Python error: .")),
    _Statement(re.compile(r"terminate called after throwing an instance of ")),
    _Statement(re.compile(r"No available shared memory broadcast block found in "), weak=True),
)


@dataclass(frozen=True)
class RootCause:
    """The failure that came first.

    Attributes:
        process: who failed: `EngineCore`, `Worker`, `APIServer`, `kernel`, `systemd`, or `vllm`
            where neither a prefix nor a frame says which of them.
        pid: its process id, where the log says it.
        exception: the exception's type; None for a line that is no exception.
        message: what it says.
        raised_from: the exceptions that led to it, the first one first.
        frames: where it was raised, the innermost call last.
        line_numbers: every line of the journal that says so.
        times_seen: how often it was said, by whichever process.
        pids: the processes that said it.
        consequences: what followed from it, each once.
    """

    process: str
    pid: int | None
    exception: str | None
    message: str
    raised_from: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    line_numbers: tuple[int, ...] = ()
    times_seen: int = 1
    pids: tuple[int, ...] = ()
    consequences: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return it as the log has it."""
        return ": ".join(part for part in (self.exception, self.message) if part)


def root_cause(entries: Sequence[Entry]) -> RootCause | None:
    """Find the failure that came first.

    Given the journal of a start that failed, return the earliest failure that is not a
    consequence, with everybody who said the same folded into it; None when the journal names no
    failure. A sign of a hang counts only where there is nothing else.
    """
    names = _names(entries)
    raised = [_failure(one, names) for one in tracebacks(entries) if one.level in _LOUD]
    strong = [*raised, *_statements(entries, weak=False)]
    causes = [one for one in strong if not is_consequence(one.text)]
    following = [one for one in strong if is_consequence(one.text)]
    causes = causes or _quoted(following) or list(_statements(entries, weak=True))
    if not causes:
        return None
    return _folded(sorted(causes, key=lambda one: one.line_numbers), following)


def is_consequence(text: str) -> bool:
    """Whether a failure only points to another one."""
    return _CONSEQUENCE.search(text) is not None


def _names(entries: Iterable[Entry]) -> dict[int, str]:
    """Learn the processes' names from the lines that have a prefix."""
    lines = (split(entry) for entry in entries)
    return {line.pid: line.process for line in lines if line.pid and line.process}


def _failure(traceback: Traceback, names: Mapping[int, str]) -> RootCause:
    """Take of a chain the last exception that says something of its own."""
    telling = [one for one in traceback.chain if not is_consequence(one.text)] or [traceback.raised]
    raised = telling[-1]
    return RootCause(
        process=traceback.process or names.get(traceback.pid or 0) or _by_frames(traceback),
        pid=traceback.pid,
        exception=raised.exception,
        message=raised.message,
        raised_from=tuple(one.text for one in telling[:-1]),
        frames=raised.frames,
        line_numbers=tuple(one.number for one in telling),
    )


def _by_frames(traceback: Traceback) -> str:
    frames = [frame for raised in traceback.chain for frame in raised.frames]
    for process, pattern in _FRAMES:
        if any(pattern.search(f"{frame.file} {frame.function}") for frame in frames):
            return process
    return UNNAMED


def _statements(entries: Iterable[Entry], *, weak: bool) -> Iterable[RootCause]:
    kinds = [one for one in _STATEMENTS if one.weak is weak]
    for entry in entries:
        line = split(entry)
        for kind in kinds:
            if kind.by and not kind.by.fullmatch(entry.identifier or ""):
                continue
            if kind.pattern.match(line.text):
                process = kind.process or line.process or UNNAMED
                yield RootCause(process, line.pid, None, line.text, line_numbers=(entry.number,))
                break


def _quoted(following: Iterable[RootCause]) -> list[RootCause]:
    """Use what a consequence quotes when the log lost the original."""
    return [
        RootCause("Worker", None, None, quoted["text"], line_numbers=one.line_numbers)
        for one in following
        if (quoted := _QUOTED.search(one.message))
    ]


def _folded(causes: Sequence[RootCause], following: Iterable[RootCause]) -> RootCause:
    first = causes[0]
    same = [one for one in causes if _shape(one) == _shape(first)]
    later = [one for one in causes if _shape(one) != _shape(first)]
    known = [one.process for one in same if one.process != UNNAMED]
    return replace(
        first,
        process=known[0] if known else first.process,
        line_numbers=tuple(sorted({number for one in same for number in one.line_numbers})),
        times_seen=len(same),
        pids=tuple(dict.fromkeys(one.pid for one in same if one.pid is not None)),
        consequences=tuple(
            dict.fromkeys(
                f"{one.process}: {one.text}"
                for one in sorted([*following, *later], key=lambda one: one.line_numbers)
            )
        ),
    )


def _shape(cause: RootCause) -> str:
    """Forget the numbers: eight workers say the same of eight devices."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", cause.text)
