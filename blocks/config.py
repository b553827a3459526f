"""Hosts and services in one TOML file that is kept in git.

`[hosts.NAME]` and `[services.NAME]` hold the fields of the two blocks; a service names its host.
Secrets are named, not written: `api_key = { env = "KIMI_KEY" }` or `{ file = "/etc/keys/kimi" }`.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from prefect.blocks.core import Block
from pydantic import SecretStr, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from blocks.errors import ConfigurationError
from blocks.host import Host
from blocks.service import Service
from blocks.types import ServiceName

_Block = TypeVar("_Block", bound=Block)


@dataclass(frozen=True)
class Configuration:
    """The hosts and services of one file, by name."""

    hosts: Mapping[str, Host]
    services: Mapping[str, Service]

    def service(self, name: str) -> Service:
        """Return the service of that name.

        Raises:
            ConfigurationError: the file has no such service.
        """
        if name not in self.services:
            known = ", ".join(sorted(self.services)) or "none"
            raise ConfigurationError(
                f"There is no service {name!r} in the configuration.", hint=f"It has: {known}."
            )
        return self.services[name]


def load(path: Path) -> Configuration:
    """Read a configuration file.

    Raises:
        ConfigurationError: the file is missing, is not TOML, or a field is wrong; the message
            names the table and the field.
    """
    tables = _read(path)
    for section in tables.keys() - {"hosts", "services"}:
        raise ConfigurationError(
            f"{path}: there is no section [{section}].", hint="Use [hosts.NAME], [services.NAME]."
        )
    hosts = {
        name: _build(Host, table, f"hosts.{name}", path)
        for name, table in _section(tables, "hosts", path).items()
    }
    services = {
        name: _service(name, table, hosts, path)
        for name, table in _section(tables, "services", path).items()
    }
    return Configuration(hosts, services)


def save(configuration: Configuration) -> None:
    """Save every host and service as a block of that name in Prefect, over what is there.

    The kinds of block are registered as well, so that their forms are there to be filled in.
    """
    Host.register_type_and_schema()
    Service.register_type_and_schema()
    for name, host in configuration.hosts.items():
        host.save(name, overwrite=True)
    for name, service in configuration.services.items():
        service.save(name, overwrite=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"The configuration {path} cannot be read: {error.strerror}.",
            hint="Name it with --config, or set VLLM_REDEPLOY_CONFIG.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path} is not TOML: {error}.", hint="Correct the file."
        ) from error


def _section(tables: dict[str, Any], section: str, path: Path) -> dict[str, dict[str, Any]]:
    found = tables.get(section, {})
    for name, table in found.items() if isinstance(found, dict) else [(section, found)]:
        if not isinstance(table, dict):
            raise ConfigurationError(
                f"{path}: {name!r} in [{section}] is not a table.", hint=f"Use [{section}.NAME]."
            )
        _check_name(name, section, path)
    return dict(found)


def _check_name(name: str, section: str, path: Path) -> None:
    try:
        TypeAdapter(ServiceName).validate_python(name)
    except ValidationError as error:
        raise ConfigurationError(
            f"{path}: [{section}.{name}]: {error.errors()[0]['msg']}.", hint="Rename the table."
        ) from error


def _service(name: str, table: dict[str, Any], hosts: dict[str, Host], path: Path) -> Service:
    host = table.get("host")
    if not isinstance(host, str) or host not in hosts:
        raise ConfigurationError(
            f"{path}: services.{name}.host names no host of this file.",
            hint=f"Hosts here: {', '.join(sorted(hosts)) or 'none'}.",
        )
    return _build(Service, {**table, "host": hosts[host]}, f"services.{name}", path)


def _secret(value: object, where: str, path: Path) -> str:
    """Return a secret from the environment or a file: `{ env = "NAME" }` or `{ file = "/…" }`."""
    if isinstance(value, dict) and len(value) == 1:
        (kind, place), *_ = value.items()
        if kind == "env" and isinstance(place, str) and os.environ.get(place):
            return os.environ[place]
        if kind == "file" and isinstance(place, str):
            try:
                return Path(place).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise ConfigurationError(
                    f"{path}: {where}: {place} cannot be read: {error.strerror}.",
                    hint="Correct the file.",
                ) from error
    raise ConfigurationError(
        f"{path}: {where} is a secret and does not belong in this file.",
        hint='Give { env = "NAME" } with that variable set, or { file = "/path" }.',
    )


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in (field.annotation, *get_args(field.annotation))


def _build(kind: type[_Block], table: dict[str, Any], where: str, path: Path) -> _Block:
    table = {
        name: _secret(value, f"{where}.{name}", path)
        if name in kind.model_fields and _is_secret(kind.model_fields[name])
        else value
        for name, value in table.items()
    }
    fields = {name for name in kind.model_fields if not name.startswith("_")}
    for unknown in sorted(table.keys() - fields):
        raise ConfigurationError(
            f"{path}: {where}.{unknown} is not a field.",
            hint=f"Fields: {', '.join(sorted(fields))}.",
        )
    try:
        return kind(**table)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"{path}: {where}.{field}: {first['msg'].removeprefix('Value error, ')}.",
            hint="Correct the file; nothing was changed.",
        ) from error
