"""Whatever a program wrote, no terminal and no page obeys what the supervisor tells of it."""

import pytest

from blocks.supervisor.failures import Failure
from blocks.supervisor.foreign import all_clean, clean, last_words
from blocks.supervisor.processes import stream

BAR = "Loading checkpoint shards: "


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("a\x1b[31mb\x1b[0m\x1b[2Jc", "abc"),
        ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c\x1b]8;;\x1b\\d", "abcd"),
        ("a\x9b31mb\x9d0;title\x9cc", "abc"),
        ("a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b(Bd\x1b7\x1b=e", "abcde"),
        ("a\x1b]0;not ended, and what follows is told", "a0;not ended, and what follows is told"),
        ("a\x1b]0;not ended\nb\x07", "a0;not ended\nb"),
        ("a\x1b\x1b[0m[31mb\x1b", "a[31mb"),
        ("".join(map(chr, range(0x20))), "\t\n"),
        ("\x7f".join(map(chr, range(0x80, 0xA0))), ""),
        ("a\u202eb\u2066c\u2069\u200f\u061cd", "abcd"),
        ("a\tb\r\nc\n", "a\tb\nc\n"),
        ("the cause\rall is well", "the cause\nall is well"),
        (f"\r{BAR}  0%| 0/4\r{BAR} 25%| 1/4\r{BAR}100%| 4/4\r\n", f"{BAR}100%| 4/4\n"),
        ("one: 5%\rtwo: 6%\rtwo: 7%", "one: 5%\ntwo: 7%"),
        ("\ud800é", "\ufffdé"),
    ],
)
def test_clean(given: str, told: str) -> None:
    assert clean(given) == told


def test_every_text_of_a_document_is_clean() -> None:
    assert all_clean({"a\x1b[0m": ["b\x07", 1, None, {"c": "\x9b1m"}]}) == {
        "a": ["b", 1, None, {"c": ""}]
    }


def test_a_failure_tells_neither_secrets_nor_escapes() -> None:
    failure = Failure("x", "uv said \x1b[31mhttps://u:p@h", "y", output=["\x1b[1mHF_TOKEN=one"])
    assert failure.document() == {
        "kind": "x",
        "message": "uv said https://***@h",
        "hint": "y",
        "output": ["HF_TOKEN=***"],
    }


def test_a_secret_is_hidden_before_its_name_is_cut_off() -> None:
    assert last_words("--api-key abcdefghij", 5) == "y ***"


def test_what_a_program_prints_is_told_clean(capfd: pytest.CaptureFixture[str]) -> None:
    ended = stream(["printf", "\\033[31mred\\033[0m\\nHF_TOKEN=one\\n"], timeout=10)
    assert ended.output == "red\nHF_TOKEN=***"
    assert "\x1b" not in capfd.readouterr().out
