"""Who listens where a service does or will: its own processes, or somebody in its place.

vLLM binds with SO_REUSEADDR and SO_REUSEPORT, so an old process of the same user on the port does
not make the new one fail: both listen, and answers come from either.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple

from blocks.supervisor import cgroups, ports, proc
from blocks.supervisor.ports import Listener

ANY_V4, ANY = "0.0.0.0", "::"  # noqa: S104 (compared with, not bound to)
_LOOPBACK = ("127.0.0.1", "::1")
_NAMES = {"localhost": _LOOPBACK, "": (ANY_V4,)}
_LOOK_AGAIN_SECONDS = 5.0
Holder = dict[str, Any]


class Found(NamedTuple):
    """The addresses at which the service is reached, and the others who listen in its place."""

    addresses: list[str]
    others: list[Holder]


class PortLook:
    """Looks at a port again and again; of a socket once seen it is known whose it is.

    One that is not the unit's can become so, passed on to it: of such it is asked again, at once
    after the first time, and then every few seconds. While it is in the way, always.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._ours: set[str] = set()
        self._foreign: dict[str, float] = {}

    def look(self, control_group: str | None, argv: Callable[[], Sequence[str]]) -> Found:
        """Look who listens.

        Args:
            control_group: The unit's.
            argv: Gives the command line of its main process, which says where it will listen.
        """
        listening = ports.listeners(self._port)
        self._tell_apart({one.inode for one in listening}, control_group)
        ours = [one for one in listening if one.inode in self._ours]
        theirs = [one for one in listening if one.inode not in self._ours]
        addresses = ports.loopback_first({one.address for one in ours})
        if not theirs:
            return Found(addresses, [])
        wanted = {one.bound for one in ours} or addresses_wanted(argv())
        in_the_way = [one for one in theirs if in_place_of(one.bound, wanted)]
        for one in in_the_way:
            self._foreign.pop(one.inode, None)
        return Found(addresses, who(in_the_way))

    def _tell_apart(self, listening: set[str], control_group: str | None) -> None:
        now = time.monotonic()
        self._ours &= listening
        others = listening - self._ours
        self._foreign = {one: at for one, at in self._foreign.items() if one in others}
        unknown = {one for one in others if self._foreign.get(one, now) <= now}
        if unknown and control_group:
            for pid in cgroups.members(control_group):
                self._ours |= unknown & proc.sockets(pid)
            for one in unknown - self._ours:
                self._foreign[one] = now + _LOOK_AGAIN_SECONDS if one in self._foreign else now


def in_place_of(bound: str, wanted: Iterable[str]) -> bool:
    """Tell whether a listener would get connections that are meant for one of some addresses."""
    return any(_overlap(bound, one) for one in wanted)


def addresses_wanted(argv: Sequence[str]) -> tuple[str, ...]:
    """Return where a command will listen by its `--host`.

    Without one vLLM listens everywhere; of any other program only the loopback is thought, where
    its answer is going to be asked for.
    """
    host = _option(argv, "--host")
    if host is None:
        return (ANY_V4,) if _is_vllm(argv) and _option(argv, "--config") is None else _LOOPBACK
    if host in _NAMES:
        return _NAMES[host]
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        return _LOOPBACK


def who(listeners: Sequence[Listener]) -> list[Holder]:
    """Return who holds listening sockets: `pid`, `command` and `address`."""
    if not listeners:
        return []
    holding: dict[str, int] = {}
    wanted = {one.inode for one in listeners}
    for pid in proc.everybody():
        for inode in wanted & proc.sockets(pid):
            holding.setdefault(inode, pid)
    return [_holder(one, holding.get(one.inode)) for one in listeners]


def sentence(port: int, holders: Sequence[Holder]) -> str:
    """Say who is in the way."""
    names = ", ".join(_named(one) for one in holders)
    return f"port {port} is held by another process: {names}"


def _holder(listener: Listener, pid: int | None) -> Holder:
    command = None if pid is None else proc.command(pid)
    return {"pid": pid, "command": command, "address": listener.bound}


def _named(holder: Holder) -> str:
    if holder["pid"] is None:
        return f"an unknown one on {holder['address']}"
    return f"{holder['pid']} ({(holder['command'] or '?')[:120]}) on {holder['address']}"


def _overlap(one: str, other: str) -> bool:
    if one == other or ANY in (one, other):
        return True
    return ANY_V4 in (one, other) and ":" not in f"{one}{other}"


def _option(argv: Sequence[str], name: str) -> str | None:
    for index, word in enumerate(argv):
        if word == name:
            return argv[index + 1] if index + 1 < len(argv) else None
        if word.startswith(f"{name}="):
            return word[len(name) + 1 :]
    return None


def _is_vllm(argv: Sequence[str]) -> bool:
    for word, following in zip(argv, [*argv[1:], ""]):
        if word.startswith("vllm.entrypoints.") or word.endswith("/api_server.py"):
            return True
        if word.rpartition("/")[2] == "vllm" and following == "serve":
            return True
    return False
