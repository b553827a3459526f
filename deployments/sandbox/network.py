"""The closed bridge that hosts hang on, and the faults of a link. No route leads off it."""

from __future__ import annotations

import json
from pathlib import Path

from deployments.sandbox.command import run, succeeds

BRIDGE = "redeploy0"
GATEWAY = "10.77.0.1"
PREFIX = GATEWAY.rpartition(".")[0]


def namespace(name: str) -> str:
    """Return the name of a host's network namespace."""
    return f"redeploy-{name}"


def link(name: str) -> str:
    """Return the name of our end of a host's cable."""
    return f"rd-{name}"


def free_address(taken: set[str]) -> str:
    """Return the lowest address on the bridge that no host has.

    >>> free_address({"10.77.0.11"})
    '10.77.0.12'
    """
    return next(f"{PREFIX}.{i}" for i in range(11, 255) if f"{PREFIX}.{i}" not in taken)


def hardware_address(address: str) -> str:
    """Return the card's address that goes with an address on the bridge.

    Neither the bridge's nor a reused address may change its card's: a neighbour that remembers
    the old one talks to nobody for half a minute.

    >>> hardware_address("10.77.0.11")
    '02:00:0a:4d:00:0b'
    """
    return "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def raise_bridge() -> None:
    """Make the bridge, where it is not there yet."""
    if succeeds(("ip", "link", "show", BRIDGE)):
        return
    run("ip", "link", "add", BRIDGE, "address", hardware_address(GATEWAY), "type", "bridge")
    run("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def remove_bridge() -> None:
    """Remove the bridge."""
    run("ip", "link", "delete", BRIDGE, check=False)


def plug_in(name: str, address: str) -> Path:
    """Give a host its network namespace with an address on the bridge; return its path."""
    inside, outside = namespace(name), link(name)
    run("ip", "netns", "add", inside)
    card = ("address", hardware_address(address))
    run("ip", "link", "add", outside, "type", "veth", "peer", "eth0", *card, "netns", inside)
    run("ip", "link", "set", outside, "master", BRIDGE, "up")
    run("ip", "neighbour", "flush", "to", address, "dev", BRIDGE)
    run("ip", "-n", inside, "link", "set", "lo", "up")
    run("ip", "-n", inside, "address", "add", f"{address}/24", "dev", "eth0")
    run("ip", "-n", inside, "link", "set", "eth0", "up")
    return Path("/run/netns", inside)


def unplug(name: str) -> None:
    """Remove a host's cable and network namespace."""
    run("ip", "link", "delete", link(name), check=False)
    run("ip", "netns", "delete", namespace(name), check=False)


def cut(name: str) -> None:
    """Pull a host's cable: packets vanish, nothing is refused."""
    run("ip", "link", "set", link(name), "down")


def heal(name: str) -> None:
    """Put a host's cable back."""
    run("ip", "link", "set", link(name), "up")


def is_cut(name: str) -> bool:
    """Say whether a host's cable is pulled."""
    shown = run("ip", "-json", "link", "show", link(name), check=False)
    return bool(shown) and "UP" not in json.loads(shown)[0]["flags"]
