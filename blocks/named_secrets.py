"""Secrets that a configuration file names instead of holding: `{ env = … }`, `{ file = … }`."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from prefect.types import SecretDict
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from blocks.errors import ConfigurationError
from blocks.hooks import HttpHook


class SecretMissing(ConfigurationError):
    """A secret is named, but cannot be had here."""


def resolved(kind: type[BaseModel], name: str, value: object, where: str) -> object:
    """Return a field's value with the secrets in it, instead of where they are.

    Args:
        kind: the model that the field is of.
        name: the field.
        value: what the file says.
        where: the field as a person would name it.

    Raises:
        SecretMissing: the environment or the file does not have it.
        ConfigurationError: the secret itself is in the configuration.
    """
    field = kind.model_fields.get(name)
    if field is None:
        return value
    if _holds(field, SecretStr):
        return _named(value, where)
    if _holds(field, SecretDict) and isinstance(value, dict):
        return _each(
            value, where, lambda _, one, at: one if isinstance(one, str) else _named(one, at)
        )
    if _holds(field, HttpHook) and isinstance(value, dict):
        return _each(value, where, lambda key, one, at: resolved(HttpHook, key, one, at))
    return value


def _each(
    table: Mapping[str, Any], where: str, change: Callable[[str, object, str], object]
) -> dict[str, object]:
    return {key: change(key, one, f"{where}.{key}") for key, one in table.items()}


def _holds(field: FieldInfo, kind: type) -> bool:
    return kind in (field.annotation, *get_args(field.annotation))


def _named(value: object, where: str) -> str:
    match value:
        case {"env": str(name), **others} if not others:
            return _usable(os.environ.get(name, ""), f"the variable {name}", where)
        case {"file": str(name), **others} if not others:
            return _usable(_content(name, where), name, where)
    raise ConfigurationError(
        f"{where} is a secret and does not belong in this file.",
        'Give { env = "NAME" } or { file = "/path" }.',
    )


def _content(name: str, where: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise SecretMissing(
            f"{where}: {name} cannot be read: {error.strerror}.", "Correct the path or the file."
        ) from error
    except ValueError:
        raise SecretMissing(f"{where}: {name} is not UTF-8 text.", "Correct the file.") from None


def _usable(text: str, source: str, where: str) -> str:
    """Return the secret; what is wrong with it is said without showing it."""
    secret = text.strip()
    if not secret:
        raise SecretMissing(f"{where}: {source} is not set or empty.", "Set it.")
    if not secret.isprintable():
        raise SecretMissing(f"{where}: {source} holds more than one printable line.", "Correct it.")
    return secret
