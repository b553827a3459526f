"""Python tracebacks, put together for each process from lines that lie mixed in a journal."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks.diagnosis.journal import Entry

_PREFIX = re.compile(r"\((?P<process>[A-Za-z][\w.-]*)(?: [a-z_]+=[\w-]+)*? pid=(?P<pid>\d+)\) ?")
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? "
    r"(?:\[(?P<source>[^\]]*)\]|(?P<older>\S+:\d+)\]) ?"
)
_TORCH = re.compile(r"\[rank\d+\]: ?")
_PLAIN_LEVEL = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):? {1,5}(?:\[\S+:\d+\] )?")
_RANK = re.compile(r"_?(?:DP|PP|TP|EP|PCP|DCP)?\d+(?=_|$)|-\d+$")
_HEADING = re.compile(r"Process (?P<process>[A-Za-z][\w.-]*):$")

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s+File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*))?')
_RAISED = re.compile(r"(?P<exception>[A-Za-z_][\w.]*)(?:: (?P<message>.*)|:)?")
_LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_ANOTHER_VOICE = re.compile(
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|Process \S+:$|\[rank\d+\]|\[[IWE]\d{3,4} |"
    r"nanobind: |Exception in thread |\S+\.py:\d+: \w*Warning: "
)
_MOST_LINES = 40
_MOST_VOICES = 512
_MOST_FRAMES = 400


@dataclass(frozen=True)
class Frame:
    """One call of a traceback."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Raised:
    """One exception: where it was raised, what it says, on which line of the journal."""

    exception: str
    message: str
    frames: tuple[Frame, ...]
    number: int
    numbers: tuple[int, ...] = ()
    """The journal's line of each line of the message."""

    @property
    def text(self) -> str:
        """Return it as Python prints it."""
        return f"{self.exception}: {self.message}" if self.message else self.exception


@dataclass(frozen=True)
class Traceback:
    """One traceback with what it was raised from.

    Attributes:
        process: `EngineCore`, `Worker`, `APIServer`, … or None where nothing says it.
        pid: its process id, where something says it.
        level: the log level it was written at; None for a bare traceback.
        chain: the exceptions, the first cause first.
    """

    process: str | None
    pid: int | None
    level: str | None
    chain: tuple[Raised, ...]

    @property
    def raised(self) -> Raised:
        """Return the exception that ended it."""
        return self.chain[-1]

    @property
    def causes(self) -> tuple[Raised, ...]:
        """Return what it was raised from."""
        return self.chain[:-1]


@dataclass(frozen=True)
class Line:
    """A line with vLLM's own prefixes taken off."""

    process: str | None
    pid: int | None
    level: str | None
    source: str | None
    text: str


def split(entry: Entry) -> Line:
    """Take vLLM's prefixes of either generation off a line; the prefix knows the pid best."""
    process, pid, text = None, entry.pid, entry.message
    if prefix := _PREFIX.match(text):
        process, pid = _RANK.sub("", prefix["process"]), int(prefix["pid"])
        process = "Worker" if process == "VllmWorker" else process
        text = text[prefix.end() :]
    if rank := _TORCH.match(text):
        text = text[rank.end() :]
    level = _LEVEL.match(text)
    if not level:
        plain = _PLAIN_LEVEL.match(text)
        if plain:
            return Line(process, pid, plain["level"], None, text[plain.end() :])
        return Line(process, pid, None, None, text)
    source = level["source"] or level["older"]
    return Line(process, pid, level["level"], source, text[level.end() :])


def tracebacks(entries: Iterable[Entry]) -> list[Traceback]:
    """Put the tracebacks of a journal together, in the order in which they ended."""
    return assembled((entry, split(entry)) for entry in entries)


def assembled(lines: Iterable[tuple[Entry, Line]]) -> list[Traceback]:
    """Put tracebacks together from lines that are split already."""
    streams: dict[tuple[object, ...], _Stream] = {}
    done: list[Traceback] = []
    for entry, line in lines:
        level = line.level if line.source else None
        key = (line.pid, line.process, level, line.source, entry.identifier)
        stream = streams.get(key)
        if stream is None:
            if len(streams) >= _MOST_VOICES:
                done += streams.pop(next(iter(streams))).finished()
            stream = streams[key] = _Stream(line.process, line.pid, line.level)
        text = line.text
        if line.level and not line.source and text.strip() != _START:
            text = f"{line.level}: {text}"
        stream.feed(text, entry.number)
    done += [traceback for stream in streams.values() for traceback in stream.finished()]
    return sorted(done, key=lambda traceback: traceback.raised.number)


@dataclass
class _Stream:
    """What one voice says: one process, and one place in its code that logs."""

    process: str | None
    pid: int | None
    level: str | None
    _done: list[Traceback] = field(default_factory=list)
    _chain: list[Raised] = field(default_factory=list)
    _frames: list[Frame] | None = None
    _exception: re.Match[str] | None = None
    _message: list[str] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)
    _number: int = 0
    _linked: bool = False

    def feed(self, text: str, number: int) -> None:
        """Take the next line."""
        if text.strip() == _START:
            self._begin()
        elif self._exception is not None:
            self._continue_message(text, number)
        elif self._frames is not None:
            self._continue_frames(text, number)
        elif _FRAME.match(text):
            # The journal was cut after the traceback had begun.
            self._frames = []
            self._continue_frames(text, number)
        elif self.level is None and (heading := _HEADING.match(text)):
            self.process = self.process or _RANK.sub("", heading["process"])

    def finished(self) -> list[Traceback]:
        """End the last traceback and give all of them."""
        self._close()
        return self._done

    def _begin(self) -> None:
        self._end_exception()
        if not self._linked:
            self._close()
        self._linked = False
        self._frames = []

    def _continue_frames(self, text: str, number: int) -> None:
        if frame := _FRAME.match(text):
            function = frame["function"] or "<module>"
            frames = self._frames = self._frames if self._frames is not None else []
            if len(frames) < _MOST_FRAMES:
                frames.append(Frame(frame["file"], int(frame["line"][:9]), function))
        elif text and not text[0].isspace():
            self._exception = _RAISED.fullmatch(text)
            self._number = number
            if self._exception is None:
                self._close()

    def _continue_message(self, text: str, number: int) -> None:
        if text.strip() in _LINKS:
            self._end_exception()
            self._linked = True
        elif _ANOTHER_VOICE.match(text) or len(self._message) >= _MOST_LINES:
            self._close()
            self.feed(text, number)
        else:
            self._message.append(text)
            self._numbers.append(number)

    def _end_exception(self) -> None:
        if self._exception is not None:
            first = self._exception["message"] or ""
            self._chain.append(
                Raised(
                    self._exception["exception"],
                    "\n".join([first, *self._message]).rstrip(),
                    tuple(self._frames or ()),
                    self._number,
                    (self._number, *self._numbers),
                )
            )
        self._exception, self._frames, self._message, self._numbers = None, None, [], []

    def _close(self) -> None:
        self._end_exception()
        if self._chain:
            self._done.append(Traceback(self.process, self.pid, self.level, tuple(self._chain)))
        self._chain, self._linked = [], False
