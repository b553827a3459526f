r"""Makes the words of others fit to be told: nothing a terminal would obey, no secrets.

Whatever leaves the supervisor goes through here: answers, recorded results, progress, errors.
"""

from __future__ import annotations

import re
from typing import Any, Callable

from blocks.supervisor.secrets import redacted

_STRING = r"[^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)"
_ESCAPES = re.compile(
    rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_STRING}"  # title, device string and the like, ended
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[ -/]*[0-~]"  # everything else that begins with ESC
)
_BAR = re.compile(r"([^%\d]*)\d+%")
_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what turns the direction of writing
)
_HALVES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    r"""Return text with no control character but `\n` and `\t`, and none that turns its direction.

    Of a progress bar that is drawn again and again on one line the last state is kept; any other
    `\r` ends a line, since what comes before it is not to be hidden.
    """
    text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(state for line in text.split("\n") for state in _states(line))
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", _OBEYED.sub("", text))


def _states(line: str) -> list[str]:
    """Return what a line showed, one after the other, without what a bar had shown before."""
    states = [state for state in line.split("\r") if state.strip()] or [""]
    bars = [_BAR.match(state) for state in states]
    labels = [bar.group(1).strip() if bar else None for bar in bars]
    following = [*labels[1:], None]
    return [
        state
        for state, label, after in zip(states, labels, following)
        if label is None or label != after
    ]


def safe(text: str) -> str:
    """Return foreign text clean and with its secrets hidden."""
    return redacted(clean(text), prose=True)


def last_words(text: str, at_most: int) -> str:
    """Return the end of foreign text; its secrets are hidden before it is cut."""
    return safe(text).strip()[-at_most:]


def all_clean(value: Any) -> Any:
    """Return a JSON value with every text in it clean."""
    return _each(value, clean)


def all_safe(value: Any) -> Any:
    """Return a JSON value with every text in it clean and with its secrets hidden."""
    return _each(value, safe)


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_key(key): _each(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each(item, change) for item in value]
    return value


def _key(key: Any) -> Any:
    return clean(key) if isinstance(key, str) else key
