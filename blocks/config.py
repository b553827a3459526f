"""Hosts and services in one TOML file that is kept in git.

`[hosts.NAME]` and `[services.NAME]` hold the fields of the two blocks; a service names its host.
Secrets are named, not written: `api_key = { env = "KIMI_KEY" }` or `{ file = "/etc/keys/kimi" }`.
One that cannot be had stops only the services that need it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from prefect.blocks.core import Block
from pydantic import TypeAdapter, ValidationError

from blocks.errors import ConfigurationError
from blocks.host import Host
from blocks.named_secrets import SecretMissing, resolved
from blocks.service import Service
from blocks.types import ServiceName

_TOGETHER = ("drain", "undrain")
_Block = TypeVar("_Block", bound=Block)


@dataclass(frozen=True)
class Lacking:
    """A service that lacks a secret.

    Attributes:
        service: the service without what needs the secret; None: its host cannot be reached so.
        why: which secret, and why it cannot be had.
    """

    service: Service | None
    why: SecretMissing


@dataclass(frozen=True)
class Configuration:
    """The hosts and services of one file, by name; those that lack a secret are apart."""

    hosts: Mapping[str, Host]
    services: Mapping[str, Service]
    lacking: Mapping[str, Lacking] = field(default_factory=dict)

    def service(self, name: str) -> Service:
        """Return the service of that name.

        Raises:
            ConfigurationError: the file has no such service, or a secret of it cannot be had.
        """
        service, why = self.to_look_at(name)
        if why is not None:
            raise why
        return service

    def to_look_at(self, name: str) -> tuple[Service, SecretMissing | None]:
        """Return the service of that name, if need be without a secret, and which one it lacks.

        Raises:
            ConfigurationError: the file has no such service, or its host cannot be reached.
        """
        if name in self.services:
            return self.services[name], None
        if name in self.lacking:
            lacking = self.lacking[name]
            if lacking.service is None:
                raise lacking.why
            return lacking.service, lacking.why
        known = ", ".join(sorted({*self.services, *self.lacking})) or "none"
        raise ConfigurationError(
            f"There is no service {name!r} in the configuration.", hint=f"It has: {known}."
        )


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
    hosts, poor_hosts = _sorted_out(Host, _section(tables, "hosts", path), "hosts", path)
    everything = hosts | {name: host for name, (host, _) in poor_hosts.items()}
    named = {
        name: _with_host(name, table, everything, path)
        for name, table in _section(tables, "services", path).items()
    }
    services, poor = _sorted_out(Service, named, "services", path)
    lacking = {name: Lacking(service, why) for name, (service, why) in poor.items()}
    for name, table in _section(tables, "services", path).items():
        if table["host"] in poor_hosts:
            lacking[name] = Lacking(None, poor_hosts[table["host"]][1])
            services.pop(name, None)
    return Configuration(hosts, services, lacking)


def save(configuration: Configuration) -> None:
    """Save every whole host and service as a block of that name in Prefect, over what is there.

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
            f"{path}: [{section}.{name}]: {_said(error)}.", hint="Rename the table."
        ) from error


def _with_host(
    name: str, table: dict[str, Any], hosts: dict[str, Host], path: Path
) -> dict[str, Any]:
    host = table.get("host")
    if not isinstance(host, str) or host not in hosts:
        raise ConfigurationError(
            f"{path}: services.{name}.host names no host of this file.",
            hint=f"Hosts here: {', '.join(sorted(hosts)) or 'none'}.",
        )
    return {**table, "host": hosts[host]}


def _sorted_out(
    kind: type[_Block], tables: dict[str, dict[str, Any]], section: str, path: Path
) -> tuple[dict[str, _Block], dict[str, tuple[_Block, SecretMissing]]]:
    """Return the blocks of a section: whole ones, and those that lack a secret, with the reason."""
    whole: dict[str, _Block] = {}
    poor: dict[str, tuple[_Block, SecretMissing]] = {}
    for name, table in tables.items():
        where = f"{path}: {section}.{name}"
        fields, missing = _with_secrets(kind, table, where)
        block = _build(kind, fields, where)
        if missing is None:
            whole[name] = block
        else:
            poor[name] = (block, missing)
    return whole, poor


def _with_secrets(
    kind: type[Block], table: dict[str, Any], where: str
) -> tuple[dict[str, Any], SecretMissing | None]:
    """Return the fields with their secrets, without those that lack one; and the first of these."""
    fields: dict[str, Any] = {}
    first: SecretMissing | None = None
    for name, value in table.items():
        try:
            fields[name] = resolved(kind, name, value, f"{where}.{name}")
        except SecretMissing as error:
            first = first or error
    if first is not None:
        for name in _TOGETHER:  # a block that lacks something only looks at its service
            fields.pop(name, None)
    return fields, first


def _build(kind: type[_Block], table: dict[str, Any], where: str) -> _Block:
    fields = {name for name in kind.model_fields if not name.startswith("_")}
    for unknown in sorted(table.keys() - fields):
        raise ConfigurationError(
            f"{where}.{unknown} is not a field.", hint=f"Fields: {', '.join(sorted(fields))}."
        )
    try:
        return kind(**table)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([where, *(str(part) for part in first["loc"])])
        raise ConfigurationError(f"{place}: {_said(error)}.", hint="Correct the file.") from error


def _said(error: ValidationError) -> str:
    """Return the first mistake in words, without a full stop."""
    return error.errors()[0]["msg"].removeprefix("Value error, ").rstrip(".")
