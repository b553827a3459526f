"""Hides secrets in what is told: it is recorded, shown and mailed around.

A secret is found by the name it is given under (`HF_TOKEN=…`, `--api-key …`, `'api_key': […]`), by
its own form (`sk-…`, a Bearer token), by its place in a URL, or because we were handed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from blocks.supervisor import secret_names

HIDDEN = "***"

_NAME = re.compile(
    r"(?P<open>\\{0,8}[\"'])?(?P<dashes>--?)?(?P<name>\w[\w.-]*)(?P<close>\\{0,8}[\"'])?"
    r"(?P<sign>[ \t]*(?:=>|=(?!=)|:(?!:|//))[ \t]*)?"
)
_GAP = r"[ \t]|\\\r?\n(?:[ \t]*[#;][^\n]*\n)*"  # a command goes on after `\`, past comments
_GAPS = re.compile(rf"(?:{_GAP})+")
_GAPS_IN_LIST = re.compile(rf"(?:{_GAP}|,)+")
_NEXT = re.compile(r"\\*[\"']?[-;|&<>\n]")
_BLANKS = re.compile(r"(?:\s|\\\r?\n)*")
_PREFIX = re.compile(r"[bBrRuU]{1,2}(?=[\"'])")
_CALL = re.compile(r"[A-Za-z_][\w.]*(?=\()")
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\[\s\S])*\"?|'(?:[^'\\\n]|\\[\s\S])*'?")
_ESCAPED = re.compile(r"(\\+[\"'])((?:(?!\1)[^\n])*)")
_BARE = re.compile(r"(?:[^\s\"'\\]|\\(?![\r\n\"'])|[\"'](?![\s,;:\])}\\]|$))+")
_BARE_IN_OBJECT = re.compile(r"[^\s\"',\])}]+")
_CLOSING = "])},;"
_NO_VALUE = re.compile(r"(?:None|null|[Tt]rue|[Ff]alse|\*+|[\[({]\s*(?:None|null)?,?\s*[\])}])?")
_NUMBER = re.compile(r"\d{1,7}(?:\.\d+)?")
_PLAIN_WORD = re.compile(r"[A-Za-z]+[.,:;!?]*")

_FORMS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [^-]*-----|\Z)"), HIDDEN),
    (
        re.compile(
            r"(authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?)"
            r"(?:[a-z]+[ \t]+)?[^\s\"'\\,}\])]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            r"\b(bearer[ \t]+)(?!(?:and|auth\w*|credentials?|format|header|is|keys?|not|or|scheme|"
            r"tokens?|was)\b)[\w.~+/=-]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}:(?:\\?/){2})[^\s/\"'<>]+@", re.IGNORECASE
        ),
        rf"\1{HIDDEN}@",
    ),
    (
        re.compile(
            r"([?&](?:sig|signature|policy|key-pair-id|x-(?:amz|goog)-[\w-]+)=)[^&\s\"'<>]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?<![\w/.-])sk-(?:(?=[\w-]*\d)[\w-]+|[\w-]{12,})"), HIDDEN),
    (re.compile(r"(?<!\w)hf_(?:(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{6,}|[a-z]{16,})(?!\w)"), HIDDEN),
    (re.compile(r"(?<!\w)(?:gh[opsu]_|github_pat_|glpat-|nvapi-|xox[abprs]-)[\w-]{16,}"), HIDDEN),
    (re.compile(r"(?<!\w)AKIA[0-9A-Z]{16}(?!\w)"), HIDDEN),
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), HIDDEN),
)
_SHORTEST_KNOWN = 4
_LONGEST_LIST = 1024
_known: set[str] = set()


class _Value(NamedTuple):
    """Where a value begins and ends, without its quotes, and where what follows it begins."""

    start: int
    end: int
    after: int


def never_tell(values: Iterable[str]) -> None:
    """Hide these from here on, wherever they stand; too short ones would hide half of any text."""
    _known.update(value for value in values if len(value) >= _SHORTEST_KNOWN)


def redacted(text: str, *, prose: bool = False) -> str:
    """Return text with its secrets hidden.

    Args:
        text: A unit file, a command line, or what a program said.
        prose: Whether plain words after an option's first value are taken for the sentence's.
    """
    for known in sorted(_known, key=len, reverse=True):
        text = text.replace(known, HIDDEN)
    told, at = [], 0
    while (found := _NAME.search(text, at)) is not None:
        for value in _values(text, found, prose):
            told += [text[at : value.start], HIDDEN]
            at = value.end
        if at < found.end():
            told.append(text[at : found.end()])
            at = found.end()
    text = "".join([*told, text[at:]])
    for form, hidden in _FORMS:
        text = form.sub(hidden, text)
    return text


def redacted_argv(argv: Sequence[str]) -> list[str]:
    """Return a command line with its secrets hidden; an option may have several values."""
    told: list[str] = []
    taking = False
    for word in argv:
        if word.startswith("-"):
            taking = word.startswith("--") and secret_names.is_secret_option(word[2:])
            told.append(redacted(word))
        else:
            told.append(HIDDEN if taking else redacted(word))
    return told


def _values(text: str, found: re.Match[str], prose: bool) -> list[_Value]:
    """Return where the secrets stand that a name introduces, if it is the name of one."""
    name, sign, closed = found["name"], found["sign"], found["close"]
    secret = secret_names.is_secret_option if found["dashes"] else secret_names.is_secret
    if not secret(name):
        return []
    if not sign:
        return _after_option(text, found, prose) if found["dashes"] else []
    if ":" in sign and not closed and not secret_names.is_clearly_secret(name):
        return []
    value: _Value | None
    if found["open"] and not closed and "=" in sign:
        value = _up_to(text, found.end(), found["open"])
    else:
        at = _match_end(_BLANKS, text, found.end()) if closed else found.end()
        value = _value(text, at, _BARE_IN_OBJECT if closed else _BARE)
    return [value] if value is not None and _is_one(text, value, name) else []


def _after_option(text: str, found: re.Match[str], prose: bool) -> list[_Value]:
    values: list[_Value] = []
    at, gaps = found.end(), _GAPS_IN_LIST if found["close"] else _GAPS
    while (gap := gaps.match(text, at)) is not None:
        if gap.end() == len(text) or _NEXT.match(text, gap.end()):
            break
        value = _value(text, gap.end())
        if value is None:
            break
        if prose and values and _PLAIN_WORD.fullmatch(text[value.start : value.after]):
            break
        values.append(value)
        at = value.after
        if ";" in text[value.end : at]:
            break
    return values


def _value(text: str, at: int, bare: re.Pattern[str] = _BARE) -> _Value | None:
    if text[at : at + 1] == "\\" and text[at + 1 : at + 2] in ("\r", "\n"):
        at = _match_end(_BLANKS, text, at)
    at = _match_end(_PREFIX, text, at)
    if (found := _QUOTED.match(text, at)) is not None:
        closed = found.end() > at + 1 and text[found.end() - 1] == text[at]
        return _Value(at + 1, found.end() - closed, found.end())
    if (found := _ESCAPED.match(text, at)) is not None:
        return _Value(found.start(2), found.end(2), found.end(2) + len(found[1]))
    opening = _match_end(_CALL, text, at)
    if text[opening : opening + 1] in ("[", "(", "{"):
        end = _end_of_list(text, opening)
        return _Value(at, end, end)
    if (found := bare.match(text, at)) is not None:
        return _Value(at, at + len(found[0].rstrip(_CLOSING)) or at, found.end())
    return None


def _up_to(text: str, at: int, quote: str) -> _Value:
    """Return the rest of what a quote was opened for."""
    if len(quote) > 1:
        end = text.find(quote, at)
        end = len(text) if end < 0 else end
    else:
        found = _QUOTED.match(f"{quote}{text[at:]}")
        inside = found[0][1:] if found else ""
        end = at + len(inside) - inside.endswith(quote)
    return _Value(at, end, end)


def _end_of_list(text: str, at: int) -> int:
    """Return the end of a list, or of its line where the list has none."""
    depth, here = 0, at
    while here < min(len(text), at + _LONGEST_LIST):
        if text[here] in "\"'":
            here = _match_end(_QUOTED, text, here)
            continue
        depth += (text[here] in "[({") - (text[here] in "])}")
        here += 1
        if depth == 0:
            return here
    line = text.find("\n", at)
    return len(text) if line < 0 else line


def _is_one(text: str, value: _Value, name: str) -> bool:
    given = text[value.start : value.end]
    if _NO_VALUE.fullmatch(given):
        return False
    return not (secret_names.is_token(name) and _NUMBER.fullmatch(given))


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
