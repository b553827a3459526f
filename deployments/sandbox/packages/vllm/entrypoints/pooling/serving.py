"""Stand-in for tests; not the real vLLM: what embedding models and rerankers are asked.

Each function returns the answer without its `id`, `model` and `usage`, and the texts it read.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from ...standin.answers import similarity, vector

Answer = tuple[dict[str, Any], list[str]]
PAIRS = (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2"))


def embed(request: dict[str, Any], wrong: str | None) -> Answer:
    """Answer `/v1/embeddings`."""
    texts = _texts(request["input"])
    vectors = [vector(text, wrong) for text in texts]
    packed = request.get("encoding_format") == "base64"
    data = [
        {"index": i, "object": "embedding", "embedding": _packed(one) if packed else one}
        for i, one in enumerate(vectors)
    ]
    return {"object": "list", "data": data}, texts


def rerank(request: dict[str, Any], wrong: str | None) -> Answer:
    """Answer `/v1/rerank`."""
    query, texts = str(request["query"]), _texts(request["documents"])
    scores = [similarity(query, text, wrong) for text in texts]
    places = sorted(range(len(texts)), key=lambda i: scores[i] or 0.0, reverse=True)
    results = [
        {
            "index": i,
            "document": {"text": texts[i], "multi_modal": None},
            "relevance_score": scores[i],
        }
        for i in places[: int(request.get("top_n") or len(texts))]
    ]
    return {"results": results}, [query, *texts]


def score(request: dict[str, Any], wrong: str | None) -> Answer:
    """Answer `/v1/score`: one text with each of several, or pair by pair."""
    one, other = next(pair for pair in PAIRS if set(pair) <= request.keys())
    left, right = _texts(request[one]), _texts(request[other])
    left = left * len(right) if len(left) == 1 else left
    data = [
        {"index": i, "object": "score", "score": similarity(*pair, wrong)}
        for i, pair in enumerate(zip(left, right, strict=True))
    ]
    return {"object": "list", "data": data}, [*left, *right]


def _texts(value: Any) -> list[str]:
    """Return one text or several; tokens count as words."""
    if isinstance(value, str) or (value and isinstance(value[0], int)):
        value = [value]
    return [one if isinstance(one, str) else " ".join(map(str, one)) for one in value]


def _packed(values: list[float | None]) -> str:
    numbers = [float("nan") if value is None else value for value in values]
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
