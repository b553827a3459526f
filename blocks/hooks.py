"""Hooks: an HTTP call or a command by which a service is taken out of its router and put back."""

import re
import shlex
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from prefect.types import SecretDict
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SecretStr,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from blocks.types import Number, bearer_key

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset(("host", "content-length", "transfer-encoding", "connection"))
_EITHER = "a hook has either a url (an HTTP call) or an argv (a command)"


def _url(value: str) -> str:
    if not value.isprintable() or " " in value:
        raise ValueError("a URL has no spaces and no control characters")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise ValueError("this is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("a hook's URL begins with http://HOST/ or https://HOST/")
    if parts.username is not None or parts.password is not None:
        raise ValueError("credentials do not belong in a URL; use bearer or headers")
    if parts.fragment:
        raise ValueError("a URL that is called has no #fragment")
    return value


def _argument(value: str) -> str:
    if not value.isprintable():
        raise ValueError("an argument is one printable line")
    return value


def _program_first(value: list[str]) -> list[str]:
    program = value[0]
    if not program or program.startswith("-"):
        raise ValueError("the first of argv is a program")
    if "/" in program and not program.startswith("/"):
        raise ValueError("the program is a name on the PATH or an absolute path")
    return value


def _header_value(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and bool(value)


def _none_if_empty(value: object) -> object:
    return value or None  # Prefect gives an empty dictionary of secrets back as ""


def _headers(value: SecretDict | None) -> SecretDict | None:
    if value is None:
        return None
    for name, one in value.get_secret_value().items():
        if name.lower() in _OURS:
            raise ValueError(f"the header {name} is not yours to set")
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError("the name of a header is letters, digits and dashes")
        if not _header_value(one):
            raise ValueError(f"the header {name} is not one line of ASCII text")
    return value


HookUrl = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_url)]
Argument = Annotated[str, Field(max_length=4096), AfterValidator(_argument)]
Argv = Annotated[list[Argument], Field(min_length=1, max_length=64), AfterValidator(_program_first)]


class HttpHook(BaseModel):
    """An HTTP call from the controller. A status of 200 to 299 means that it was done."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, title="HTTP call"
    )

    url: HookUrl = Field(title="URL", description="what is called; it holds no secrets")
    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"] = Field("POST", title="Method")
    bearer: Annotated[SecretStr | None, AfterValidator(bearer_key)] = Field(
        None, title="Bearer key", description="sent as `Authorization: Bearer …`"
    )
    headers: Annotated[
        SecretDict | None, BeforeValidator(_none_if_empty), AfterValidator(_headers)
    ] = Field(
        None,
        title="Headers",
        description="further headers by name; their values are kept secret",
    )
    body: str | None = Field(
        None, max_length=100_000, title="Body", description="sent as it is; it holds no secrets"
    )
    timeout_seconds: Number = Field(
        10, gt=0, le=300, title="Time-out", description="for one try, in seconds"
    )

    @model_validator(mode="after")
    def _one_authorization(self) -> Self:
        named = self.headers.get_secret_value() if self.headers else {}
        if self.bearer and any(name.lower() == "authorization" for name in named):
            raise ValueError("bearer is an Authorization header already")
        return self

    def in_words(self) -> str:
        """Return what is called, for people: without headers, body and query."""
        parts = urlsplit(self.url)
        query = "…" if parts.query else ""
        return f"{self.method} {urlunsplit(parts._replace(query=query))}"

    def all_headers(self) -> dict[str, str]:
        """Return what is sent; these are secrets."""
        headers: dict[str, str] = dict(self.headers.get_secret_value()) if self.headers else {}
        if self.bearer is not None:
            headers["Authorization"] = f"Bearer {self.bearer.get_secret_value()}"
        return headers


class CommandHook(BaseModel):
    """A program and its arguments, without a shell. Exit status 0 means that it was done."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, title="Command"
    )

    argv: Argv = Field(
        title="Command",
        description="the program and its arguments, one an entry; it is shown, so no secrets",
    )
    where: Literal["controller", "host"] = Field(
        "host", title="Where", description="on the service's host, as the user who logs in; or here"
    )
    timeout_seconds: Number = Field(
        60, gt=0, le=3600, title="Time-out", description="for one try, in seconds"
    )

    def in_words(self) -> str:
        """Return what is run, and where, for people."""
        return f"`{shlex.join(self.argv)}` on the {self.where}"


def _kind(value: Any) -> str | None:
    if isinstance(value, HttpHook | CommandHook):
        return "http" if isinstance(value, HttpHook) else "command"
    if isinstance(value, dict) and ("url" in value) != ("argv" in value):
        return "http" if "url" in value else "command"
    return None


class _ToldByItsFields:
    """Has a hook read as the one kind that it is, so that a mistake in it is named as of that one.

    It stands around a plain union, since Prefect looks for secrets and choices in nothing else.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        kinds = {"http": handler(HttpHook), "command": handler(CommandHook)}
        return core_schema.nullable_schema(
            core_schema.tagged_union_schema(
                kinds, _kind, custom_error_type="hook", custom_error_message=_EITHER
            )
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        kinds, nothing = handler(schema)["anyOf"]
        return {"anyOf": [*kinds["oneOf"], nothing]}


Hook = HttpHook | CommandHook
OptionalHook = Annotated[Hook | None, _ToldByItsFields()]
"""The type of a block's field that holds a hook."""
