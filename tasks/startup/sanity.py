"""Is an answer sane? Each function returns a sentence about what is wrong, or None.

Meant for a short question of our own (some eight to sixty-four tokens) just after a start. What
it finds are broken kernels, broken weights and broken caches, not a bad model: anything that a
sound model may say passes, in every script.
Python 3.9 and the standard library only.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence

_FEW_TOKENS = 3
_LONGEST_UNIT = 24
_REPEATS = 12
_LOOP_SHARE = 0.8
_LONGEST_JUDGED = 20_000
_FINE_CONTROLS = "\t\n\v\f\r\x1b\x85"
_BROKEN = "\ufffd"


def judge_text(text: object, finish_reason: str | None, tokens: int | None = None) -> str | None:
    r"""Judge the text of a completion or of a chat.

    Let through on purpose: one letter, a lone "\n" of a base model, emojis, code, any script, a
    character that the token limit cut in two, an empty answer of which only a few tokens were
    asked (they may be parts of a character, or invisible), and repetition that ends by itself.

    Args:
        text: what was answered.
        finish_reason: "length" where the token limit ended it, "stop" where the model did.
        tokens: how many tokens were generated, by the answer's usage.
    """
    if not isinstance(text, str):
        return f"The answer holds no text but {type(text).__name__}."
    cut = finish_reason == "length"
    if not text:
        if cut and tokens is not None and tokens <= _FEW_TOKENS:
            return None
        return "The answer is empty." + ("" if tokens is None else f" ({tokens} tokens)")
    return _broken_character(text, cut) or (_loop(text) if finish_reason != "stop" else None)


def judge_chat(
    message: Mapping[str, object], finish_reason: str | None, tokens: int | None = None
) -> str | None:
    """Judge the message of a chat: its content, or what it thought, or the tools it calls.

    A reasoning model may have spent all its tokens on thinking; then that is judged.
    """
    if message.get("tool_calls"):
        return None
    for name in ("content", "reasoning_content", "reasoning"):
        if message.get(name):
            return judge_text(message[name], finish_reason, tokens)
    return judge_text("", finish_reason, tokens)


def judge_embeddings(
    vectors: object, asked: int, dimensions: int | None = None, alike: bool = False
) -> str | None:
    """Judge embeddings of different texts.

    Args:
        vectors: a list of vectors, one a text.
        asked: how many texts were sent.
        dimensions: how long each must be; None: all of one length.
        alike: whether the texts sent were equal, so that the vectors may be.
    """
    if not isinstance(vectors, Sequence) or len(vectors) != asked:
        return f"{_number(vectors)} embeddings came for {asked} texts."
    for place, vector in enumerate(vectors, start=1):
        problem = _bad_vector(vector, dimensions or _length(vectors[0]))
        if problem:
            return f"Embedding {place} {problem}."
    if asked > 1 and not alike and all(list(one) == list(vectors[0]) for one in vectors):
        return f"All {asked} embeddings are the same, though the texts differ."
    return None


def judge_scores(scores: object, asked: int, best: int | None = None) -> str | None:
    """Judge the scores of different texts, in the order of the texts.

    Args:
        scores: one number a text.
        asked: how many texts were sent.
        best: which of them, from 0, any sound model must put first; None: no such claim.
    """
    if not isinstance(scores, Sequence) or len(scores) != asked:
        return f"{_number(scores)} scores came for {asked} texts."
    for place, score in enumerate(scores, start=1):
        if not _finite(score):
            return f"Score {place} is no finite number but {score!r}."
    if asked > 1 and len(set(scores)) == 1:
        return f"All {asked} scores are {scores[0]!r}, though the texts differ."
    if best is not None and scores[best] < max(scores):
        first = list(scores).index(max(scores))
        return (
            f"Text {first + 1} scores {scores[first]:.4g}, above the one that answers the "
            f"question (text {best + 1}: {scores[best]:.4g})."
        )
    return None


def judge_rerank(results: object, asked: int, best: int | None = None) -> str | None:
    """Judge the results of a rerank: each text once, the best score first, and as for scores.

    Args:
        results: the answer's `results`, each with `index` and `relevance_score`.
        asked: how many texts were sent.
        best: as in `judge_scores`.
    """
    if not isinstance(results, Sequence) or len(results) != asked:
        return f"{_number(results)} results came for {asked} texts."
    if not all(isinstance(result, Mapping) for result in results):
        return "The results are not objects with an index and a score."
    places = [result.get("index") for result in results]
    if not all(isinstance(place, int) for place in places) or sorted(places) != list(range(asked)):
        return f"The results name the texts {places!r}, not each of the {asked} once."
    scores = [result.get("relevance_score") for result in results]
    problem = judge_scores([scores[places.index(place)] for place in range(asked)], asked, best)
    if problem:
        return problem
    if scores != sorted(scores, reverse=True):
        return "The results are not ordered by their scores."
    return None


def _broken_character(text: str, cut: bool) -> str | None:
    whole = _without_cut_end(text) if cut else text
    for character in whole[:_LONGEST_JUDGED]:
        if character == _BROKEN or unicodedata.category(character) == "Cs":
            return f"The answer holds broken characters: {_excerpt(text)}."
        if character not in _FINE_CONTROLS and unicodedata.category(character) == "Cc":
            return f"The answer holds control characters: {_excerpt(text)}."
    return None


def _without_cut_end(text: str) -> str:
    """Take off what a cut character leaves: at most three bytes or half of a surrogate pair."""
    for _ in range(3):
        if text and (text[-1] == _BROKEN or unicodedata.category(text[-1]) == "Cs"):
            text = text[:-1]
    return text


def _loop(text: str) -> str | None:
    """Find the same few characters over and over at the end, and little before them."""
    text = text[:_LONGEST_JUDGED].rstrip("\n") or text[:_LONGEST_JUDGED]
    for size in range(1, min(_LONGEST_UNIT, len(text) // _REPEATS) + 1):
        looped = size
        while looped < len(text) and text[-looped - 1] == text[-looped - 1 + size]:
            looped += 1
        if looped >= size * _REPEATS and looped >= _LOOP_SHARE * len(text):
            unit = text[-size:]
            return f"The answer is {unit!r} over and over ({looped // size} times)."
    return None


def _bad_vector(vector: object, dimensions: int | None) -> str | None:
    if not isinstance(vector, Sequence) or isinstance(vector, str) or not vector:
        return "is no list of numbers"
    if len(vector) != dimensions:
        return f"has {len(vector)} numbers, not {dimensions}"
    if not all(_finite(value) for value in vector):
        return "holds what is no finite number"
    if not any(vector):
        return "is all zero"
    if len(vector) > 1 and len(set(vector)) == 1:
        return f"is {vector[0]!r} throughout"
    return None


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _length(vector: object) -> int | None:
    return len(vector) if isinstance(vector, Sequence) else None


def _number(things: object) -> str:
    return str(len(things)) if isinstance(things, Sequence) else "No"


def _excerpt(text: str) -> str:
    return ascii(text if len(text) <= 60 else text[:60] + "…")
