"""Takes secrets out of what is told about a unit: it is recorded, shown and mailed around."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"
_NAME = r"(?:[\w-]*[_-])?(?:key|token|secret|password|passwd)"
_ASSIGNED = re.compile(rf"(?<![\w-])({_NAME}=)(\"[^\"]*\"|'[^']*'|[^\s\"']+)", re.IGNORECASE)
_QUOTED = re.compile(rf"([\"'])({_NAME}=).*?\1", re.IGNORECASE)
_OPTION = re.compile(rf"--{_NAME}", re.IGNORECASE)
_GIVEN = re.compile(rf"(?<![\w-])(--{_NAME}\s+)(?!-)(\"[^\"]*\"|'[^']*'|\S+)", re.IGNORECASE)


def redacted(text: str) -> str:
    """Return text with the values of keys, tokens and passwords hidden."""
    text = _QUOTED.sub(rf"\1\2{HIDDEN}\1", text)
    return _GIVEN.sub(rf"\1{HIDDEN}", _ASSIGNED.sub(rf"\1{HIDDEN}", text))


def redacted_argv(argv: Sequence[str]) -> list[str]:
    """Return a command line with the values of keys, tokens and passwords hidden."""
    told: list[str] = []
    for word in argv:
        secret = bool(told) and _OPTION.fullmatch(told[-1]) and not word.startswith("--")
        told.append(HIDDEN if secret else redacted(word))
    return told
