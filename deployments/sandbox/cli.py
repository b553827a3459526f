"""What `redeploy sandbox up|down|list` does."""

from __future__ import annotations

from pathlib import Path

from deployments.sandbox import hosts, state, toml
from deployments.sandbox.hosts import HostState
from deployments.sandbox.story import find, prepare


def sandbox_up(name: str = "demo", story: str = "kimi") -> Path:
    """Prepare a host with a story and return the path of a configuration for it."""
    host = prepare(name, story)
    path = state.host_folder(name) / "redeploy.toml"
    path.write_text(toml.config_toml(host, find(story)))
    return path


def sandbox_down(name: str = "demo") -> None:
    """Remove a host with all that is its own."""
    hosts.get(name)
    hosts.remove(name)


def sandbox_list() -> list[HostState]:
    """Return every sandbox host and whether it is up."""
    return hosts.list_hosts()
