"""One small question of the service's own kind, and whether the answer is sane."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blocks.types import Kind
from tasks.startup import sanity

_TOKENS = 24
_QUESTION = "The capital of France is"
_TEXTS = ["The sky is blue today.", "A train leaves the station at noon."]


@dataclass(frozen=True)
class Probe:
    """A question and its judge.

    Attributes:
        kind: what a service that answers it is.
        path: where it is asked.
        body: what is asked, without the model.
        judge: gives a sentence about what is wrong with an answer, or None.
    """

    kind: Kind
    path: str
    body: dict[str, Any]
    judge: Callable[[dict[str, Any]], str | None]


def _choice(answer: dict[str, Any]) -> dict[str, Any]:
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def _tokens(answer: dict[str, Any]) -> int | None:
    usage = answer.get("usage")
    spent = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return spent if isinstance(spent, int) else None


def _judge_completion(answer: dict[str, Any]) -> str | None:
    choice = _choice(answer)
    return sanity.judge_text(choice.get("text"), choice.get("finish_reason"), _tokens(answer))


def _judge_chat(answer: dict[str, Any]) -> str | None:
    choice = _choice(answer)
    message = choice.get("message")
    if not isinstance(message, dict):
        return "The answer holds no message."
    return sanity.judge_chat(message, choice.get("finish_reason"), _tokens(answer))


def _judge_embeddings(answer: dict[str, Any]) -> str | None:
    data = answer.get("data")
    entries = data if isinstance(data, list) else []
    vectors = [entry.get("embedding") for entry in entries if isinstance(entry, dict)]
    return sanity.judge_embeddings(vectors, asked=len(_TEXTS))


def _judge_rerank(answer: dict[str, Any]) -> str | None:
    return sanity.judge_rerank(answer.get("results"), asked=len(_TEXTS))


_GENERATE = {"max_tokens": _TOKENS, "temperature": 0}

PROBES = (
    Probe(
        Kind.COMPLETION, "/v1/completions", {"prompt": _QUESTION, **_GENERATE}, _judge_completion
    ),
    Probe(
        Kind.CHAT,
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": f"{_QUESTION} …?"}], **_GENERATE},
        _judge_chat,
    ),
    Probe(Kind.EMBEDDING, "/v1/embeddings", {"input": _TEXTS}, _judge_embeddings),
    Probe(
        Kind.RERANK,
        "/v1/rerank",
        {"query": "When does the train go?", "documents": _TEXTS},
        _judge_rerank,
    ),
)
"""The questions, in the order in which a service of unknown kind is asked them."""

NOT_THIS_KIND = frozenset({400, 404, 405, 501})
"""How vLLM answers what its model cannot serve: there is no such route, or it says so."""


def to_try(kind: Kind) -> list[Probe]:
    """Return the questions that a service of this kind may be asked; the first that fits wins."""
    return [probe for probe in PROBES if kind in (Kind.AUTO, probe.kind)]
