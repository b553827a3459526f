"""Writes the configuration that describes a story's host and service."""

from __future__ import annotations

import json

from deployments.sandbox import layout
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import Story


def config_toml(host: SandboxHost, story: Story) -> str:
    """Return a `redeploy.toml` for a story on a host."""
    host_table = {
        "address": host.address,
        "user": "root",
        "key_file": str(host.key_file),
        "known_hosts": str(host.known_hosts),
    }
    service_table: dict[str, object] = {
        "host": host.name,
        "unit": story.unit,
        "environment": story.environment,
        "distribution": "vllm",
        "port": story.port,
        "model": story.model,
        "served_model": story.served_model,
        "wheel_index": layout.wheel_index(host, story),
        "indexes": [layout.simple_index(host, story)],
        "markers": list(story.markers),
        "debug_files": [story.debug_files.pattern],
        "forbidden_config_keys": list(story.forbidden_config_keys),
        "imports": ["vllm"],
        "steady_seconds": 2,
    }
    if story.api_key:
        key = host.known_hosts.with_name("api_key")
        key.touch(0o600)
        key.write_text(story.api_key)
        service_table["api_key"] = {"file": str(key)}
    return (
        _table(f"hosts.{host.name}", host_table)
        + "\n"
        + _table(f"services.{story.service}", service_table)
    )


def _table(name: str, values: dict[str, object] | dict[str, str]) -> str:
    rows = "".join(f"{key} = {_value(value)}\n" for key, value in values.items())
    return f"[{name}]\n{rows}"


def _value(value: object) -> str:
    """Return a value as TOML writes it; JSON does strings, numbers and lists of them alike."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)
