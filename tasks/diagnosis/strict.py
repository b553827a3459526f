"""Values taken from a log, before they may be part of a command: of their type, or refused."""

import posixpath
import re

from packaging.version import InvalidVersion, Version

_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]{0,60}")
_PATH = re.compile(r"/[A-Za-z0-9._+/@-]{1,400}")
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.@-]{0,200}\.service")
_PID = re.compile(r"[1-9][0-9]{0,6}")


def version(text: str) -> Version | None:
    """Return a version, or None for what is none."""
    if not _VERSION.fullmatch(text):
        return None
    try:
        return Version(text)
    except InvalidVersion:
        return None


def package(text: str) -> str | None:
    """Return a package's name, or None."""
    return text if _PACKAGE.fullmatch(text) else None


def path(text: str) -> str | None:
    """Return an absolute path without `..` or a character that could mean something, or None."""
    plain = _PATH.fullmatch(text) and posixpath.normpath(text) == text
    return text if plain and not text.startswith("//") else None


def unit(text: str) -> str | None:
    """Return the name of a service, or None."""
    return text if _UNIT.fullmatch(text) else None


def pid(text: str) -> int | None:
    """Return a process id above 1, or None."""
    return int(text) if _PID.fullmatch(text) and int(text) > 1 else None
