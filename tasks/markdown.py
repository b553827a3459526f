"""Text from hosts in markdown pages: inert, whatever it holds."""

import re
from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&])")
_UNSEEN = "\N{REPLACEMENT CHARACTER}"


def fenced(text: str) -> str:
    """Return text as a code block that nothing in it can close."""
    clean = _CONTROL.sub(_UNSEEN, text.replace("\r", "\n"))
    longest = max((len(ticks) for ticks in re.findall(r"`+", clean)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{clean}\n{fence}"


def inert(text: object) -> str:
    """Return one line of text in which markdown and HTML mean nothing."""
    clean = _CONTROL.sub(_UNSEEN, " ".join(str(text).split()))
    return _SPECIAL.sub(r"\\\1", clean)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; its cells are made inert."""
    lines = [list(heads), ["---"] * len(heads)]
    lines += [[inert("" if cell is None else cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
