"""Typed names: what may be called a unit, a path, a package, a host; what may be a key.

Each type refuses with one sentence. The supervisor checks the same again on the host, with the
standard library only (`blocks.supervisor.values`), since it trusts nobody who calls it.
"""

import ipaddress
import posixpath
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

from packaging.utils import canonicalize_name
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

UNIT_PATTERN = r"^[A-Za-z0-9:_.@\\-]+(\.service)?$"
PACKAGE_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
SERVICE_PATTERN = r"^[a-z0-9]+(-[a-z0-9]+)*$"
PATH_PATTERN = r"^/[^\x00-\x1f\x7f]*$"
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WILDCARD = re.compile(r"[*?\[]")
_LONGEST_NAME = 255


class Kind(StrEnum):
    """What a service answers; `auto`: whichever it turns out to be."""

    AUTO = "auto"
    COMPLETION = "completion"
    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"


def unit_name(value: str) -> str:
    """Return the name of a service unit, always with its `.service` ending."""
    name = value if value.endswith(".service") else f"{value}.service"
    if not re.fullmatch(UNIT_PATTERN, value) or value.startswith(("-", ".")):
        raise ValueError(f"{value!r} is not the name of a systemd service unit.")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"A unit name has at most {_LONGEST_NAME} characters.")
    return name


def absolute_path(value: str) -> str:
    """Return the path as it is; refuse one that is relative, not normalised, or climbs."""
    if _CONTROL.search(value):
        raise ValueError("A path holds no control characters.")
    if not value.startswith("/") or value.startswith("//"):
        raise ValueError(f"{value!r} is not an absolute path.")
    if value == "/":
        raise ValueError("'/' is everything; name a path below it.")
    if ".." in value.split("/"):
        raise ValueError(f"{value!r} climbs with '..'; give the path itself.")
    if posixpath.normpath(value) != value:
        raise ValueError(f"{value!r} is not normalised; write {posixpath.normpath(value)!r}.")
    return value


def package_name(value: str) -> str:
    """Return the package's name, normalised."""
    if not re.fullmatch(PACKAGE_PATTERN, value):
        raise ValueError(f"{value!r} is not the name of a Python package.")
    return str(canonicalize_name(value))


def host_address(value: str) -> str:
    """Return a host's DNS name or IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        labels = value.removesuffix(".").split(".")
        named = all(_LABEL.fullmatch(label) for label in labels)
        numeric = all(label.isdigit() for label in labels)
        if not named or numeric or len(value) > _LONGEST_NAME:
            raise ValueError(f"{value!r} is neither a host name nor an IP address.") from None
    return value


def glob(value: str) -> str:
    """Return a pattern of files below an absolute folder that is spelled out."""
    if "**" in value:
        raise ValueError(f"{value!r}: '**' is not known here; name each level.")
    absolute_path(value)
    literal = value[: found.start()] if (found := _WILDCARD.search(value)) else value
    if posixpath.dirname(literal) == "/":
        raise ValueError(f"{value!r} has to name a folder below / before its first wildcard.")
    return value


def service_name(value: str) -> str:
    """Return the short name of a service: lower case, digits and dashes."""
    if not re.fullmatch(SERVICE_PATTERN, value):
        raise ValueError(f"{value!r}: a name is lower-case letters, digits and single dashes.")
    return value


def one_line(value: str) -> str:
    """Return text that is one printable line."""
    if not value.isprintable():
        raise ValueError("must be one printable line")
    return value


def bearer_key(value: SecretStr | None) -> SecretStr | None:
    """Return a key that fits into a header; what is wrong is said without showing it."""
    if value is None:
        return None
    key = value.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("a key is one word of ASCII text")
    return value


def no_truth_value(value: object) -> object:
    """Return what may be a number; `true` is not one, though Python counts it as 1."""
    if isinstance(value, bool):
        raise ValueError("this is a number, not true or false")
    return value


def password(value: SecretStr | None) -> SecretStr | None:
    """Return a password that is one line; what is wrong is said without showing it."""
    if value is not None and not value.get_secret_value().isprintable():
        raise ValueError("a password is one printable line")
    return value or None  # an empty field of Prefect's form


def _typed(check: Callable[[str], str], pattern: str | None, example: str) -> tuple[object, ...]:
    extra: dict[str, Any] = {"pattern": pattern} if pattern else {}
    return AfterValidator(check), Field(json_schema_extra=extra, examples=[example])


UnitName = Annotated[str, *_typed(unit_name, UNIT_PATTERN, "vllm-kimi-k25.service")]
AbsolutePath = Annotated[str, *_typed(absolute_path, PATH_PATTERN, "/opt/vllm/env")]
PackageName = Annotated[str, *_typed(package_name, PACKAGE_PATTERN, "flashinfer-cubin")]
HostAddress = Annotated[str, *_typed(host_address, None, "gpu-17.example.com")]
Whole = Annotated[int, BeforeValidator(no_truth_value)]
Number = Annotated[float, BeforeValidator(no_truth_value)]
Port = Annotated[int, Field(ge=1, le=65535, examples=[8000]), BeforeValidator(no_truth_value)]
Glob = Annotated[str, *_typed(glob, PATH_PATTERN, "/tmp/*_debug_*.pt")]  # noqa: S108
OneLine = Annotated[str, AfterValidator(one_line)]
ServiceName = Annotated[str, *_typed(service_name, SERVICE_PATTERN, "kimi-k25")]
