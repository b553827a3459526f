"""Text from hosts in markdown pages: inert, whatever it holds."""

import re
from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&:@]|(?<=www)\.)")
_UNSEEN = "\N{REPLACEMENT CHARACTER}"


def clean(text: str) -> str:
    """Return text without control characters, terminal commands and hidden directions."""
    return _CONTROL.sub(_UNSEEN, text.replace("\r", "\n"))


def fenced(text: str) -> str:
    """Return text as a code block that nothing in it can close."""
    shown = clean(text)
    longest = max((len(ticks) for ticks in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def inert(text: object) -> str:
    """Return one line of text in which markdown and HTML mean nothing."""
    return _SPECIAL.sub(r"\\\1", clean(" ".join(str(text).split())))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; its cells are made inert."""
    lines = [list(heads), ["---"] * len(heads)]
    lines += [[inert("" if cell is None else cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
