"""Log text is hostile: it must not become markup."""

import re

import pytest
from markdown_it import MarkdownIt

from tasks.markdown import fenced, inert, table

HOSTILE = [
    "```\n# out of the fence\n```",
    "````text\n<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "| a | b |\n|---|---|",
    "\x1b[31mred\x1b[0m \u202egnp.exe",
    "![x](https://elsewhere.example/x.png)",
    "see https://elsewhere.example/ or www.elsewhere.example or mail@elsewhere.example",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_fence_holds_whatever_is_in_it(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(fenced(text))
    assert [token.type for token in tokens] == ["fence"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_is_one_line_of_plain_text(text: str) -> None:
    page = table(("what",), [(text,)])
    html = MarkdownIt("commonmark").enable("table").render(page)
    assert page.count("\n") == 2
    assert not re.search(r"\w://|www\.|\w@", page)
    for tag in ("<img", "<a ", "<script", "<h1"):
        assert tag not in html


def test_no_control_characters_are_left() -> None:
    shown = fenced("\x1b[31m\u202e\x00\n") + inert("\x1b\u2066\x9b")
    assert not any(bad in shown for bad in "\x1b\u202e\x00\u2066\x9b")
