"""Sane answers pass in every script; broken ones are told from them."""

from typing import Any

import pytest

from tasks.startup.sanity import (
    judge_chat,
    judge_embeddings,
    judge_rerank,
    judge_scores,
    judge_text,
)

RULE = "# " + "-" * 60 + "\nimport os\n\n\ndef main():\n    return os.environ\n"


@pytest.mark.parametrize(
    ("text", "finish_reason"),
    [
        ("Paris.", "stop"),
        ("4", "length"),
        (" ", "length"),
        ("\n", "length"),
        ("\n\n", "length"),
        ("!", "length"),
        ("…", "stop"),
        ("Die Hauptstadt Frankreichs ist Paris.", "length"),
        ("东京是日本的首都。", "stop"),
        ("عاصمة فرنسا هي باريس", "length"),
        ("राजधानी पेरिस है", "length"),
        ("プログラムをかくことは", "length"),
        ("👩‍👩‍👧‍👦🇫🇷❤️", "length"),
        ("\u200f\u05e9\u05dc\u05d5\u05dd\u200e", "stop"),
        ("e\u0301\u0308 combining", "stop"),
        ("\ufeffwith a byte order mark", "stop"),
        ("\x1b[31mred\x1b[0m", "stop"),
        ("a\tb\r\nc\x0cd", "stop"),
        (RULE, "length"),
        ("```python\nfor i in range(10):\n    print(i)\n```", "stop"),
        ("0000000000", "length"),
        (
            "A heading, a sentence that explains the table, and its first line: " + "-" * 40,
            "length",
        ),
        ("ha" * 200, "stop"),
        ("-" * 80, "stop"),
        ("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16", "length"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n", "length"),
        ("the cat and the dog and the cow and the hen and the pig", "length"),
        ("The answer is \ufffd", "length"),
        ("\ufffd\ufffd\ufffd", "length"),
        ("a cut pair \ud83d", "length"),
        ("Paris" + "\n" * 50, "length"),
    ],
)
def test_sane_text(text: str, finish_reason: str) -> None:
    assert judge_text(text, finish_reason) is None


@pytest.mark.parametrize(
    ("text", "finish_reason", "says"),
    [
        ("", "stop", "empty"),
        ("", "length", "empty"),
        ("", None, "empty"),
        (None, "stop", "NoneType"),
        (["a"], "stop", "list"),
        ("!" * 16, "length", "'!' over and over (16 times)"),
        ("!" * 4096, "length", "over and over"),
        ("的" * 32, "length", "over and over"),
        ("\n" * 64, "length", "over and over"),
        (" the" * 16, "length", "over and over (16 times)"),
        ("<pad>" * 20, "length", "over and over"),
        ("Sure! " + "ab" * 100, "length", "over and over (100 times)"),
        ("!" * 64, None, "over and over"),
        ("Par\ufffd\ufffdis", "stop", "broken"),
        ("Par\ufffdis", "length", "broken"),
        ("Paris\ufffd", "stop", "broken"),
        ("\ufffd" * 16, "length", "broken"),
        ("a\x00b", "stop", "control"),
        ("\x00" * 16, "length", "control"),
        ("a\x08b", "stop", "control"),
        ("a\x9bb", "stop", "control"),
        ("lone \ud83d surrogate", "stop", "broken"),
    ],
)
def test_broken_text(text: object, finish_reason: str | None, says: str) -> None:
    problem = judge_text(text, finish_reason)

    assert problem is not None
    assert says in problem
    assert problem.isprintable()


def test_an_empty_answer_of_few_tokens_may_be_part_of_a_character() -> None:
    assert judge_text("", "length", tokens=1) is None
    assert judge_text("", "length", tokens=16) == "The answer is empty. (16 tokens)"
    assert judge_text("", "stop", tokens=1) is not None


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "Paris."},
        {"content": None, "reasoning_content": "The user asks for"},
        {"content": "", "reasoning": "The user asks for"},
        {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    ],
)
def test_sane_chat(message: dict[str, object]) -> None:
    assert judge_chat(message, "length") is None


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": None},
        {"content": "", "reasoning_content": None, "tool_calls": []},
        {"content": "!" * 40},
        {"content": None, "reasoning_content": "!" * 40},
    ],
)
def test_broken_chat(message: dict[str, object]) -> None:
    assert judge_chat(message, "length") is not None


ONE, OTHER = [0.1, -0.2, 0.3], [0.3, 0.2, -0.1]


def test_sane_embeddings() -> None:
    assert judge_embeddings([ONE, OTHER], 2) is None
    assert judge_embeddings([ONE, OTHER], 2, dimensions=3) is None
    assert judge_embeddings([ONE, ONE], 2, alike=True) is None
    assert judge_embeddings([[1.0]], 1) is None
    assert judge_embeddings([[0, 1, 0]], 1) is None


@pytest.mark.parametrize(
    ("vectors", "asked", "dimensions", "says"),
    [
        ([ONE], 2, None, "1 embeddings came for 2 texts"),
        ([], 1, None, "0 embeddings"),
        (None, 1, None, "No embeddings"),
        ([ONE, OTHER[:2]], 2, None, "Embedding 2 has 2 numbers, not 3"),
        ([ONE, OTHER], 2, 1024, "Embedding 1 has 3 numbers, not 1024"),
        ([ONE, [0.0, 0.0, 0.0]], 2, None, "Embedding 2 is all zero"),
        ([ONE, [0.5, 0.5, 0.5]], 2, None, "0.5 throughout"),
        ([[float("nan"), 1.0, 2.0]], 1, None, "no finite number"),
        ([[float("inf"), 1.0, 2.0]], 1, None, "no finite number"),
        ([[None, 1.0, 2.0]], 1, None, "no finite number"),
        ([[True, False, True]], 1, None, "no finite number"),
        (["abc"], 1, None, "no list of numbers"),
        ([[]], 1, None, "no list of numbers"),
        ([3.5], 1, None, "no list of numbers"),
        ([ONE, ONE], 2, None, "are the same"),
    ],
)
def test_broken_embeddings(vectors: object, asked: int, dimensions: int | None, says: str) -> None:
    problem = judge_embeddings(vectors, asked, dimensions)

    assert problem is not None
    assert says in problem


def test_sane_scores() -> None:
    assert judge_scores([0.9, 0.1], 2, best=0) is None
    assert judge_scores([-3, 4.5, 1], 3, best=1) is None
    assert judge_scores([0.5], 1) is None
    assert judge_scores([1.0, 1.0, 0.0], 3, best=1) is None


@pytest.mark.parametrize(
    ("scores", "asked", "best", "says"),
    [
        ([0.5], 2, None, "1 scores came for 2"),
        (None, 2, None, "No scores"),
        ([0.5, float("nan")], 2, None, "Score 2 is no finite number"),
        ([0.5, "0.4"], 2, None, "Score 2 is no finite number"),
        ([0.5, 0.5], 2, None, "All 2 scores are 0.5"),
        ([0.1, 0.9], 2, 0, "Text 2 scores 0.9"),
    ],
)
def test_broken_scores(scores: object, asked: int, best: int | None, says: str) -> None:
    problem = judge_scores(scores, asked, best)

    assert problem is not None
    assert says in problem


def ranked(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"index": index, "relevance_score": score} for index, score in pairs]


def test_sane_rerank() -> None:
    assert judge_rerank(ranked((2, 0.9), (0, 0.4), (1, 0.1)), 3, best=2) is None


@pytest.mark.parametrize(
    ("results", "says"),
    [
        (ranked((2, 0.9), (0, 0.4)), "2 results came for 3"),
        (ranked((2, 0.9), (0, 0.4), (0, 0.1)), "not each of the 3 once"),
        (ranked((2, 0.9), (0, 0.4), (3, 0.1)), "not each of the 3 once"),
        (ranked((2, 0.9), (0, 0.4), ("1", 0.1)), "not each of the 3 once"),
        (ranked((2, 0.1), (0, 0.4), (1, 0.9)), "above the one that answers"),
        (ranked((0, 0.4), (2, 0.9), (1, 0.1)), "not ordered"),
        (ranked((2, 0.5), (0, 0.5), (1, 0.5)), "All 3 scores"),
        (ranked((2, None), (0, 0.5), (1, 0.5)), "no finite number"),
        ([0.9, 0.4, 0.1], "not objects"),
        (None, "No results"),
    ],
)
def test_broken_rerank(results: object, says: str) -> None:
    problem = judge_rerank(results, 3, best=2)

    assert problem is not None
    assert says in problem
