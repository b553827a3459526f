"""Causes that were logged only as a warning, long before the failure that names the same thing.

vLLM goes on without what it could not load, and fails where it needs it. The failure then says that
something is absent; the warning says why.
"""

import re
from collections.abc import Iterable, Sequence

from tasks.diagnosis.journal import Entry
from tasks.diagnosis.tracebacks import Line

_ABSENT = re.compile(
    r"(?i)\bno attribute\b|\bnot (?:available|installed|found|supported|loaded|compiled|built|"
    r"enabled|valid|implemented|registered|importable|initiali[sz]ed)\b|\bunavailable\b|"
    r"\bis (?:missing|disabled|required)\b|\bcould not (?:run|find|infer)\b|"
    r"\bcannot (?:use|find)\b|"
    r"\bno module named\b|\bunknown (?:backend|operator)\b|\bdoes not exist\b|\brequires \w+|"
    r"\bhas no \b|\bname '\w+' is not defined\b|\bfailed to (?:infer|find)\b|\bNoneType\b"
)
_WHY = re.compile(
    r"\b\w*(?:Error|Exception)\b[:('\"]|[Ff]ailed to (?:import|load|initiali[sz]e|open|dlopen)|"
    r"[Cc](?:annot|ould not) (?:import|open|load|find|initiali[sz]e)|No module named|"
    r"undefined symbol|not installed and |(?:is|are) disabled: "
)
_HELD = re.compile(r"\S+: Found left-over process \d+ ")
_BY_OTHERS = re.compile(r"(?i)used by other processes|address already in use|\bis already in use\b")
_WORD = re.compile(r"[A-Za-z_][\w.-]{1,80}")
_NAMED = re.compile(
    r"['\"`]([\w./:-]{2,80})['\"`]|\b(\w*[_.]\w[\w.]{0,80}|[A-Z][A-Z\d_]{2,}|\w*[a-z][A-Z]\w*)"
)
_COMMON = frozenset(
    """error errors exception runtimeerror valueerror importerror attributeerror keyerror oserror
    notimplementederror modulenotfounderror assertionerror typeerror filenotfounderror vllm torch
    ops lib python python3.12 python3.11 site-packages false true none object cuda gpu kv cpu
    max_model_len model config.json trust_remote_code https http com org opt usr""".split()  # noqa: SIM905
)


def earlier(
    failure: str, number: int, lines: Sequence[tuple[Entry, Line]]
) -> tuple[Entry, Line] | None:
    """Return the warning before a failure that says why, or None.

    Args:
        failure: the failure's text.
        number: its line; only what comes before it is looked at.
        lines: the journal.
    """
    text = failure[:2000]
    if _BY_OTHERS.search(text):
        return next((one for one in lines if _is_left_over(one, number)), None)
    if not _ABSENT.search(text):
        return None
    wanted = _named(text)
    found = [
        (len(wanted & _words(line.text[:2000])), -entry.number, entry, line)
        for entry, line in lines
        if entry.number < number and _warns(line) and _WHY.search(line.text[:2000])
    ]
    best = max((one for one in found if one[0]), default=None, key=lambda one: one[:2])
    return (best[2], best[3]) if best else None


def _is_left_over(one: tuple[Entry, Line], number: int) -> bool:
    entry, line = one
    by_systemd = entry.identifier in (None, "systemd")
    return by_systemd and entry.number < number and _HELD.match(line.text) is not None


def _warns(line: Line) -> bool:
    return line.level == "WARNING" or "Warning: " in line.text[:400]


def _named(text: str) -> set[str]:
    """Return what a failure names: what it quotes, and what is written as an identifier."""
    return _with_parts(quoted or plain for quoted, plain in _NAMED.findall(text))


def _words(text: str) -> set[str]:
    return _with_parts(_WORD.findall(text))


def _with_parts(names: Iterable[str]) -> set[str]:
    found = {name.strip(".-").lower() for name in names}
    found |= {part for name in found for part in re.split(r"[./:]+", name)}
    return {name for name in found if len(name) > 1 and name not in _COMMON}
