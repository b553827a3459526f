"""Whether what runs is what was asked for: a version said in two places, of one build.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_VERSION = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*?)(?:\.0)*"
    r"(?P<suffix>(?:(?:a|b|rc)\d+)?(?:\.post\d+)?)"
    r"(?:\.dev(?P<dev>\d+))?"
    r"(?:\+(?:g(?P<commit>[0-9a-f]{7,40})(?![0-9a-z]))?.*)?"
)
_LONGEST = 200
"""A longer one is no version, and built to be taken apart for ever."""


class _Build(NamedTuple):
    number: tuple[str, str, str | None]
    commit: str | None


def same_build(one: str, other: str) -> bool:
    """Tell whether two versions are of one commit, whatever variant they were built for.

    A wheel's name says `+gea5f903f8.cu130` where the running program says `+gea5f903f8`.
    """
    a, b = _taken_apart(one), _taken_apart(other)
    if a is None or b is None:
        return one == other
    same = a.commit is None or b.commit is None or same_commit(a.commit, b.commit)
    return a.number == b.number and same


def same_commit(one: str, other: str) -> bool:
    """Tell whether two commits are one, each named by as many digits as were written down."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _taken_apart(version: str) -> _Build | None:
    found = _VERSION.fullmatch(version) if len(version) <= _LONGEST else None
    if found is None:
        return None
    return _Build((found["release"], found["suffix"], found["dev"]), found["commit"])
