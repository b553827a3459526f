"""Checks of single values: each returns the value or refuses it with one sentence."""

from __future__ import annotations

import math
import posixpath
import re
from typing import Any, Callable
from urllib.parse import urlsplit

from blocks.supervisor.failures import Refusal
from tasks.startup.stages import READY, STAGES

Check = Callable[[Any, str], Any]

OPERATION = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*")
_UNIT = re.compile(r"[A-Za-z0-9:_@\\][A-Za-z0-9:_.@\\-]*\.service")
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(
    r"([0-9]+!)?[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?"
    r"(\+[a-z0-9]+([._-][a-z0-9]+)*)?"
)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?|[0-9]+")
_RELEASE = re.compile(r"[a-z0-9][a-z0-9-]*")
_INVOCATION = re.compile(r"[0-9a-f]{32}")
_SERVICE_LINE = re.compile(
    r"Environment=(?:PATH|VLLM_[A-Z0-9_]+)=[A-Za-z0-9_./:+,@-]*"
    r"|(?:LimitNOFILE|TimeoutStartSec)=[0-9]{1,7}"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SECRET_NAME = re.compile(r"OPENAI_API_KEY|HF_TOKEN")
_WILDCARD = re.compile(r"[*?\[]")


def refuse(name: str, message: str) -> Refusal:
    """Make the refusal of one argument."""
    return Refusal("bad-argument", f"{name}: {message}", "Correct the argument.", argument=name)


def text(value: Any, name: str) -> str:
    """Accept any text that can be written down, without NUL."""
    if not isinstance(value, str) or "\x00" in value:
        raise refuse(name, "it has to be text.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse(name, "it holds half a character.") from None
    return value


def one_line(value: Any, name: str) -> str:
    """Accept one line of printable text that is not empty."""
    line = text(value, name)
    if not line.strip() or _CONTROL.search(line) or len(line) > 4096:
        raise refuse(name, "it has to be one line of text without control characters.")
    return line


def secret(value: Any, name: str) -> str:
    """Accept one line of ASCII; the refusal does not repeat it."""
    if not one_line(value, name).isascii():
        raise refuse(name, "it has to be ASCII.")
    return str(value)


def word(value: Any, name: str) -> str:
    """Accept one line that no program takes for an option."""
    line = one_line(value, name)
    if line.startswith("-"):
        raise refuse(name, f"{line!r} begins with a dash.")
    return line


def path(value: Any, name: str) -> str:
    """Accept an absolute, normalised path that does not climb and is not the root."""
    where = one_line(value, name)
    if not where.startswith("/") or where.startswith("//"):
        raise refuse(name, f"{where!r} is not an absolute path.")
    if ".." in where.split("/") or posixpath.normpath(where) != where or where == "/":
        raise refuse(name, f"{where!r} is not a normalised path below /.")
    return where


def glob(value: Any, name: str) -> str:
    """Accept a pattern below a folder that is spelled out, without `**`."""
    pattern = path(value, name)
    found = _WILDCARD.search(pattern)
    literal = pattern[: found.start()] if found else pattern
    if "**" in pattern or posixpath.dirname(literal) == "/":
        raise refuse(name, f"{pattern!r} has to spell out a folder below /, and has no '**'.")
    return pattern


def url(value: Any, name: str) -> str:
    """Accept an http, https or file URL without credentials."""
    address = word(value, name)
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https", "file") and bool(parts.netloc or parts.path)
    except ValueError:
        known = False
    if not known or " " in address:
        raise refuse(name, f"{address!r} is not an http, https or file URL.")
    if parts.username or parts.password:
        raise refuse(name, "credentials belong in uv's own configuration, not in a URL.")
    return address


def requirement(value: Any, name: str) -> str:
    """Accept one requirement, which is not an option of a requirements file."""
    line = one_line(value, name)
    if not line[0].isalnum():
        raise refuse(name, f"{line!r} is not a requirement.")
    return line


def pinned(value: Any, name: str) -> str:
    """Accept `name==version`."""
    line = one_line(value, name)
    package_name, separator, package_version = line.partition("==")
    if not separator:
        raise refuse(name, f"{line!r} is not of the form name==version.")
    return f"{package(package_name, name)}=={version(package_version, name)}"


def matching(pattern: re.Pattern[str], what: str, at_most: int = 255) -> Check:
    """Return a check that the whole of a text matches a pattern."""

    def check(value: Any, name: str) -> str:
        given = text(value, name)
        if not pattern.fullmatch(given) or len(given) > at_most:
            raise refuse(name, f"{given[:80]!r} is not {what}.")
        return given

    return check


def stage(value: Any, name: str) -> str:
    """Accept a stage of a start that can take too long."""
    if value not in STAGES or value == READY:
        raise refuse(name, f"{str(value)[:80]!r} is none of: {', '.join(STAGES[:-1])}.")
    return str(value)


unit = matching(_UNIT, "the name of a systemd service unit (with its .service)")
package = matching(_PACKAGE, "the name of a package")
version = matching(_VERSION, "a version")
module = matching(_MODULE, "the name of a Python module")
user = matching(_USER, "the name or number of a user")
release = matching(_RELEASE, "the name of a release: lower-case letters, digits, dashes")
service_line = matching(
    _SERVICE_LINE, "a line of a [Service] section that a remedy may add", at_most=4096
)
operation = matching(OPERATION, "the name of an operation, [a-z0-9-]+(/[a-z0-9-]+)*")
secret_name = matching(_SECRET_NAME, "OPENAI_API_KEY or HF_TOKEN")
invocation = matching(_INVOCATION, "an invocation id, 32 hexadecimal digits")


def number(least: float, most: float) -> Check:
    """Return a check for a finite number in a range."""

    def check(value: Any, name: str) -> float:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not least <= value <= most:
            raise refuse(name, f"it has to be a number from {least:g} to {most:g}.")
        return value  # type: ignore[no-any-return]

    return check


def whole(least: int, most: int) -> Check:
    """Return a check for a whole number in a range."""
    in_range = number(least, most)

    def check(value: Any, name: str) -> int:
        if not isinstance(value, int):
            raise refuse(name, "it has to be a whole number.")
        return int(in_range(value, name))

    return check


def many(each: Check, at_most: int = 1000) -> Check:
    """Return a check for a list."""

    def check(value: Any, name: str) -> list[Any]:
        if not isinstance(value, list) or len(value) > at_most:
            raise refuse(name, f"it has to be a list of at most {at_most} items.")
        return [each(item, f"{name}[{index}]") for index, item in enumerate(value)]

    return check


def table(key: Check, each: Check) -> Check:
    """Return a check for an object by key."""

    def check(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise refuse(name, "it has to be an object.")
        return {key(one, name): each(item, f"{name}.{one}") for one, item in value.items()}

    return check


def document(value: Any, name: str) -> dict[str, Any]:
    """Accept any JSON object."""
    if not isinstance(value, dict):
        raise refuse(name, "it has to be an object.")
    return value


def optional(check: Check) -> Check:
    """Return a check that lets null through as well."""

    def check_or_none(value: Any, name: str) -> Any:
        return None if value is None else check(value, name)

    return check_or_none
