"""Of a journal of any size, the lines that may matter: one pass, bounded memory.

Ordinary lines repeat: without their digits nearly all of them are a line that was seen before. So a
block of lines is compared as a set, and looked into only where something in it is new and speaks of
trouble. What follows such a line is read as well, and the beginning and the end of the journal.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

_BLOCK = 1 << 18
_NUMBERS = b"0123456789abcdef .:/-()[]"
_MOST_KNOWN = 50_000
_OFTEN = 6
_FOLLOWING = 400
_FIRST = 400
_LAST = 800
_LONGEST_LINE = 32 << 20
_EDGE = 1 << 14
_TROUBLE = (
    *(b"rror", b"RROR", b"raceback", b"xception", b"atal", b"ailed", b"illed", b"died ", b"NVRM"),
    *(b"segfault", b"traps:", b"SXid", b"ecause ", b"ndefined", b"not found", b"Abort", b"panic"),
    *(b"what():", b"f memory", b"code=", b"\xc3\x97 ", b"\xe2\x95\xb0", b"llegal ", b"imed out"),
    *(b"URL dependenc", b"aused by", b"cause:", b"cannot ", b"repeated too", b"too many open"),
    *(b"left-over", b"not connect", b"broadcast block", b"shared object", b"assert"),
)
_MENTIONED = (
    *(b"WARN", b"arning", b"startup complete", b"hutdown", b"hutting down", b'" 200', b"Stopping "),
    *(b"Deactivated", b"Started ", b"Running: 0 reqs"),
)
_BYTES = re.compile(rb'"MESSAGE" ?: ?\[([\d, ]*)\]')


class Sieve:
    """Reads a journal once and yields its telling lines with their numbers, from 1."""

    def __init__(self, stream: BinaryIO) -> None:
        self.lines_read = 0
        self._stream = stream
        self._known: set[bytes] = set()
        self._often: Counter[bytes] = Counter()
        self._open_until = _FIRST

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that may matter; all of them where the journal is small."""
        before, block, first, done = b"", b"", 1, 0
        for read in self._blocks():
            before, block, first = block, read, self.lines_read + 1
            for place, line in self._chosen(block, first):
                done = first + place
                yield done, _cut(line)
        lines = block.split(b"\n") if self.lines_read else []
        if before and len(lines) < _LAST:
            earlier = before.split(b"\n")[-_LAST:]
            first, lines = first - len(earlier), earlier + lines
        skipped = max(0, len(lines) - _LAST)
        for number, line in enumerate(lines[skipped:], start=first + skipped):
            if number > done:
                yield number, _cut(line)

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines, a part of a megabyte at a time; a line without an end is cut."""
        rest = b""
        while read := self._stream.read(_BLOCK):
            end = read.rfind(b"\n")
            if end < 0:
                rest = rest + read if len(rest) < _LONGEST_LINE else rest
                continue
            yield rest + read[:end]
            rest = read[end + 1 :]
        if rest:
            yield rest

    def _chosen(self, block: bytes, first: int) -> list[tuple[int, bytes]]:
        """Return the telling lines of a block with their places in it."""
        shapes = block.translate(None, _NUMBERS).split(b"\n")
        self.lines_read += len(shapes)
        if b"{" in block and (b'"MESSAGE":[' in block or b'"MESSAGE" : [' in block):
            self._uncover(block.split(b"\n"), shapes)
        if self._open_until < first and self._known.issuperset(shapes):
            return []
        fresh = set(shapes) - self._known
        lines = block.split(b"\n")
        telling = self._telling(fresh, lines, shapes) if fresh else {}
        if not telling and self._open_until < first:
            return []
        return [(place, lines[place]) for place in self._places(shapes, telling, first)]

    def _places(self, shapes: list[bytes], telling: dict[bytes, bool], first: int) -> Iterator[int]:
        mentions: Counter[bytes] = Counter()
        for place, shape in enumerate(shapes):
            trouble = telling.get(shape)
            if trouble:
                self._open_until = first + place + _FOLLOWING
            elif trouble is not None:
                mentions[shape] += 1
            if first + place <= self._open_until or 0 < mentions[shape] <= _OFTEN:
                yield place

    def _telling(
        self, fresh: set[bytes], lines: list[bytes], shapes: list[bytes]
    ) -> dict[bytes, bool]:
        """Return the new shapes that matter; True for those whose following lines do as well."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        said = (
            one[1:] if one[:1] == b"\0" else line for one, line in zip(shapes, lines, strict=True)
        )
        example = dict(zip(shapes, said, strict=True))
        together = b"\n".join(example[shape] for shape in fresh)
        needles = [needle for needle in (*_TROUBLE, *_MENTIONED) if needle in together]
        trouble = [needle for needle in needles if needle in _TROUBLE]
        found = {}
        for shape in fresh:
            line = example[shape]
            if not any(needle in line for needle in needles):
                self._known.add(shape)
                continue
            found[shape] = any(needle in line for needle in trouble) and b"WARN" not in line
            self._often[shape] += 1
            if self._often[shape] >= _OFTEN:
                self._known.add(shape)
                del self._often[shape]
        if len(self._often) > _MOST_KNOWN:
            self._often.clear()
        return found

    def _uncover(self, lines: list[bytes], shapes: list[bytes]) -> None:
        """Compare messages that are lists of bytes by what they say."""
        for place, line in enumerate(lines):
            listed = _BYTES.search(line)
            if listed:
                numbers = (int(one) for one in listed[1].split(b",") if one.strip())
                said = bytes(one for one in numbers if one < 256)
                shapes[place] = b"\0" + said.replace(b"\n", b" ")


def _cut(line: bytes) -> bytes:
    """Return a line without the middle of what nobody will read."""
    if len(line) <= 2 * _EDGE or line[:1] == b"{":
        return line
    return line[:_EDGE] + b" ... " + line[-_EDGE:]
