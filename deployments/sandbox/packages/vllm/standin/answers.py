"""Stand-in for tests; not the real vLLM: what the model answers, sane or wrong.

Words depend on the prompt alone. The vector of a text is the sum of its words' vectors, so that
texts with the same words are near to each other.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Sequence

WORDS = ("a", "red", "green", "host", "serves", "the", "model", "again", "and", "is", "well")
DIMENSIONS = 32
GARBAGE = "garbage"
BROKEN = "broken"

Vector = list[float]


def token(prompt: str, place: int, wrong: str | None = None) -> str:
    """Return the token at a place of the answer."""
    if wrong == GARBAGE:
        return "!"
    seed = hashlib.sha256(prompt.encode()).digest()
    word = " " + WORDS[(seed[place % len(seed)] + place) % len(WORDS)]
    return f" \ufffd\ufffd{word}" if wrong == BROKEN else word


def vector(text: str, wrong: str | None = None) -> list[float | None]:
    """Return a text's embedding; what is no number goes over the wire as null."""
    if wrong == GARBAGE:
        return [None] * DIMENSIONS
    return [*_vector("" if wrong == BROKEN else text)]


def similarity(one: str, other: str, wrong: str | None = None) -> float | None:
    """Return how near two texts are, from -1 to 1."""
    if wrong == GARBAGE:
        return None
    if wrong == BROKEN:
        return 0.5
    return sum(a * b for a, b in zip(_vector(one), _vector(other), strict=True))


def _vector(text: str) -> Vector:
    words = re.findall(r"\w+", text.lower())
    parts = [_of_word(f"text {text}", 0.1), *(_of_word(word, 1.0) for word in words)]
    return _unit([sum(column) for column in zip(*parts, strict=True)])


def _of_word(word: str, weight: float) -> Vector:
    numbers = random.Random(word)  # noqa: S311 - the same for the same word
    return [numbers.gauss(0, weight) for _ in range(DIMENSIONS)]


def _unit(values: Sequence[float]) -> Vector:
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]
