"""The failure that came first, told from those that only follow from it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis import statements, warned
from tasks.diagnosis.journal import Entry
from tasks.diagnosis.statements import Weight, is_consequence, is_echo
from tasks.diagnosis.tracebacks import Frame, Line, Raised, Traceback, assembled, split

__all__ = ["UNNAMED", "RootCause", "is_consequence", "root_cause"]

UNNAMED = "vllm"
_QUOTED = re.compile(r"Worker failed with error [\"'](?P<text>.*)[\"'], please check", re.DOTALL)
_QUIET = frozenset({"WARNING", "INFO", "DEBUG"})
_FRAMES = (
    ("Worker", re.compile(r"/multiproc_executor\.py worker_main$")),
    ("EngineCore", re.compile(r"/core\.py run_engine_core$")),
    ("APIServer", re.compile(r"/bin/vllm |/vllm/entrypoints/")),
)
_PROBES = frozenset({"KeyError", "AttributeError", "IndexError", "StopIteration", "LookupError"})
_OPAQUE = re.compile(
    r"(?i)validation errors? for|ninja output|build failed|error compiling|error building|"
    r"CalledProcessError|non-zero exit|InductorError|BackendCompilerFailed|CompilationError|"
    r"command .* failed|multiple errors|the following errors?|exceptiongroup"
)
_REACHED_READY = re.compile(r"Application startup complete\.?$")
_SERVED = re.compile(r'"(?:POST|GET) /\S* HTTP/1\.\d" 200')
_FROM_OUTSIDE = re.compile(r"died unexpectedly \(exit code: (?:None|-15|-9)\)")
_ASKED_TO_STOP = re.compile(
    r"\[shutdown\]|Shutting down|Received signal|Stopping .*\.service|SIGTERM"
)
_FATAL_END = re.compile(r"\S+: (?:Main process exited|Failed with result|.*code=dumped)")


@dataclass(frozen=True)
class RootCause:
    """The failure that came first.

    Attributes:
        process: who failed: `EngineCore`, `Worker`, `APIServer`, `kernel`, `systemd`, `uv`, or
            `vllm` where neither a prefix nor a frame says which of them.
        pid: its process id, where the log says it.
        exception: the exception's type; None for a line that is no exception.
        message: what it says.
        raised_from: the exceptions that led to it, or to which it led, the first one first.
        frames: where it was raised, the innermost call last.
        line_numbers: every line of the journal that says so; `number` is the telling one.
        times_seen: how many processes said it, or how often where nothing tells them apart.
        pids: the processes that said it.
        consequences: what followed from it, each once.
        number: the line of the journal that says it first.
        weight: how much it is worth as a cause.
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
    number: int = 0
    weight: Weight = Weight.FAILED

    @property
    def text(self) -> str:
        """Return it as the log has it."""
        return ": ".join(part for part in (self.exception, self.message) if part)

    @property
    def is_known(self) -> bool:
        """Whether it says of what the service died, and not only that it did."""
        return self.weight < Weight.DIED


def root_cause(entries: Sequence[Entry], *, has_died: bool = False) -> RootCause | None:
    """Find the failure that came first.

    Args:
        entries: the journal, oldest first.
        has_died: it is known that the service died; else a log that ends with an engine ended
            from outside after it had served is that of a service that was stopped.

    Returns:
        The earliest failure that is not a consequence, with everybody who said the same folded
        into it; None when the journal names no failure. Weaker signs (an error somebody logged, a
        closed connection, a death, a hang) count only where there is nothing stronger.
    """
    lines = [(entry, split(entry)) for entry in entries]
    names = {line.pid: line.process for _, line in lines if line.pid and line.process}
    raised = assembled(lines)
    found = [_failure(one, names) for one in raised if one.level not in _QUIET]
    found += _statements(lines, _numbers(raised))
    causes = [one for one in found if not is_consequence(one.text)]
    following = [one for one in found if is_consequence(one.text)]
    causes, following = _unless_it_served(causes, following, lines, has_died)
    chosen = _chosen(causes, following) or _standstill(lines)
    if chosen is None:
        return None
    return _explained(_folded(chosen, causes, following), lines)


def _chosen(causes: Sequence[RootCause], following: Sequence[RootCause]) -> RootCause | None:
    """Return the strongest there is; what only says that it is over comes last."""
    telling = [one for one in causes if one.weight < Weight.DIED] or _quoted(following)
    unclear = [replace(one, weight=Weight.DIED) for one in following]
    for group in (telling, causes, unclear):
        if any(one.weight < Weight.STOPPED for one in group):
            return _first(group)
    return _first(causes) if causes else None


def _first(causes: Sequence[RootCause]) -> RootCause:
    """Return the earliest of the strongest; of a resolver's nested causes the innermost."""
    strongest = min(one.weight for one in causes)
    ordered = sorted((one for one in causes if one.weight is strongest), key=lambda c: c.number)
    first = ordered[0]
    for one in ordered[1:]:
        nested = first.process == "uv" and re.match(r"\s*(?:caused by|cause):", one.text, re.I)
        if not nested or one.number > first.number + 3:
            break
        first = one
    return first


def _explained(chosen: RootCause, lines: Sequence[tuple[Entry, Line]]) -> RootCause:
    """Put a warning of long before in its place, where it says why what is missing is missing."""
    why = warned.earlier(chosen.text, chosen.number, lines)
    if why is None:
        return chosen
    entry, line = why
    return replace(
        chosen,
        process=_process_of(line, entry) or chosen.process,
        pid=line.pid,
        exception=None,
        message=line.text,
        raised_from=(),
        line_numbers=(entry.number,),
        consequences=(f"{chosen.process}: {chosen.text}", *chosen.consequences),
        number=entry.number,
    )


def _process_of(line: Line, entry: Entry) -> str | None:
    if entry.identifier in ("systemd", "kernel"):
        return entry.identifier
    return line.process


def _numbers(raised: Iterable[Traceback]) -> frozenset[int]:
    return frozenset(
        number for one in raised for link in one.chain for number in (link.number, *link.numbers)
    )


def _failure(traceback: Traceback, names: Mapping[int, str]) -> RootCause:
    """Take of a chain the first exception that says something of its own."""
    telling = [one for one in traceback.chain if not is_consequence(one.text)]
    telling = telling or [traceback.raised]
    last = telling[-1]
    first = next((one for one in telling if not _is_probe(one, last)), last)
    first = last if _restates(last, first) else first
    number, said = _telling_line(first)
    process = traceback.process or names.get(traceback.pid or 0) or _by_frames(traceback)
    opaque = number != first.number
    return RootCause(
        process=process,
        pid=traceback.pid,
        exception=None if opaque else first.exception,
        message=said.strip() if opaque else first.message,
        raised_from=tuple(one.text for one in telling if one is not first),
        frames=first.frames,
        line_numbers=tuple(sorted({number, *(one.number for one in telling)})),
        number=number,
        weight=Weight.ECHO if not opaque and is_echo(first.text) else Weight.FAILED,
    )


def _is_probe(one: Raised, last: Raised) -> bool:
    """Whether it only made the program look elsewhere, where it then failed."""
    if one is last:
        return False
    name = one.exception.rpartition(".")[2]
    return name in _PROBES or is_echo(one.text)


def _restates(last: Raised, first: Raised) -> bool:
    """Whether the last exception says what the first one says, and where it happened."""
    words = first.message.split("\n")[0].split()[:4]
    core = re.split(r"[.:;,(]", " ".join(words))[0].strip()
    return len(core.split()) > 1 and core.lower() in last.message.split("\n")[0].lower()


def _telling_line(raised: Raised) -> tuple[int, str]:
    """Find in a message of several lines the one that says it, where the first only heads it."""
    lines = raised.text.split("\n")
    if len(lines) < 2 or not _OPAQUE.search(lines[0][:2000]):
        return raised.number, lines[0]
    weights = []
    for place, text in enumerate(lines[1:], start=1):
        entry = Entry(number=place, message=text)
        found = statements.statement(entry, split(entry))
        if found and found.weight <= Weight.SAID and not is_consequence(text):
            weights.append((found.weight, place))
    if not weights or len(raised.numbers) <= min(weights)[1]:
        return raised.number, lines[0]
    place = min(weights)[1]
    return raised.numbers[place], lines[place]


def _by_frames(traceback: Traceback) -> str:
    frames = [frame for raised in traceback.chain for frame in raised.frames]
    for process, pattern in _FRAMES:
        if any(pattern.search(f"{frame.file} {frame.function}") for frame in frames):
            return process
    return UNNAMED


def _statements(
    lines: Iterable[tuple[Entry, Line]], in_tracebacks: frozenset[int]
) -> Iterable[RootCause]:
    for entry, line in lines:
        if entry.number in in_tracebacks:
            continue
        said = statements.statement(entry, line)
        if said:
            process = said.process or line.process or UNNAMED
            yield RootCause(
                process,
                line.pid,
                said.exception,
                said.message,
                line_numbers=(entry.number,),
                number=entry.number,
                weight=said.weight,
            )


def _unless_it_served(
    causes: list[RootCause],
    following: list[RootCause],
    lines: Sequence[tuple[Entry, Line]],
    has_died: bool,
) -> tuple[list[RootCause], list[RootCause]]:
    """Leave out what did no harm: errors before it served, and an end that came from outside."""
    ready = [entry.number for entry, line in lines if _REACHED_READY.search(line.text[-60:])]
    if not ready:
        return causes, following
    failed = has_died or any(
        _FATAL_END.match(line.text) for _, line in lines if line.text[:1] != " "
    )
    kept = [
        one
        for one in causes
        if one.weight not in (Weight.SAID, Weight.ECHO) or failed or one.number > ready[-1]
    ]
    served = any(_SERVED.search(line.text) for _, line in lines)
    ended = [one for one in kept if _FROM_OUTSIDE.search(one.text)]
    if served and not failed and ended:
        start = min(one.number for one in ended)
        return [one for one in kept if one.number < start], []
    asked = any(_ASKED_TO_STOP.search(line.text) for _, line in lines)
    return kept, [] if asked and not failed and not kept else following


def _standstill(lines: Sequence[tuple[Entry, Line]]) -> RootCause | None:
    """Take the last line of a start that came to no end: there it stands, or the log was cut."""
    spoken = [(entry, line) for entry, line in lines if line.process and line.text.strip()]
    over = (_REACHED_READY, _ASKED_TO_STOP, _FATAL_END)
    if not spoken or any(sign.search(line.text) for _, line in lines for sign in over):
        return None
    entry, line = spoken[-1]
    same = [one for one, other in spoken if _general(other.text) == _general(line.text)]
    return RootCause(
        process=line.process or UNNAMED,
        pid=line.pid,
        exception=None,
        message=line.text,
        line_numbers=tuple(one.number for one in same),
        number=entry.number,
        weight=Weight.STANDS,
    )


def _quoted(following: Iterable[RootCause]) -> list[RootCause]:
    """Use what a consequence quotes when the log lost the original."""
    return [
        replace(one, process="Worker", pid=None, exception=None, message=quoted["text"])
        for one in following
        if (quoted := _QUOTED.search(one.message))
    ]


def _folded(
    first: RootCause, causes: Sequence[RootCause], following: Iterable[RootCause]
) -> RootCause:
    same = [one for one in causes if _shape(one) == _shape(first)] or [first]
    others = [one for one in causes if _shape(one) != _shape(first)]
    known = [one.process for one in same if one.process != UNNAMED]
    pids = tuple(dict.fromkeys(one.pid for one in same if one.pid is not None))
    unknown = sum(one.pid is None for one in same)
    return replace(
        first,
        process=known[0] if known else first.process,
        line_numbers=tuple(sorted({number for one in same for number in one.line_numbers})),
        times_seen=len(pids) or unknown,
        pids=pids,
        consequences=tuple(
            dict.fromkeys(
                f"{one.process}: {one.text[:2000]}"
                for one in sorted([*following, *others], key=lambda one: one.number)
            )
        )[:_MOST_CONSEQUENCES],
    )


_MOST_CONSEQUENCES = 40


def _shape(cause: RootCause) -> str:
    """Forget the numbers: eight workers say the same of eight devices."""
    return _general(cause.text)


def _general(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "#", text[:2000])
