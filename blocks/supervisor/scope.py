"""Whose services these are: the system's, which are root's matter, or one user's own.

With `--user` as the first word, the supervisor works for the user who calls it: through that user's
own systemd, in that user's folders, with no right that the user does not have.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from typing import NamedTuple

from blocks.supervisor.failures import Refusal

USER = "--user"
_OR_OWN = f"Use sudo; or {USER} for the services of one user (user_units of the host)."


class Scope(NamedTuple):
    """Where things lie, and how systemd and its journal are asked.

    Attributes:
        flags: for systemctl, systemd-run and busctl.
        state: where the supervisor remembers.
        memory: a folder in memory.
        units: where unit files are added.
        target: what is reached at each boot.
        told: the journal's fields of what systemd says about a unit, and about an invocation.
        teller: the journal's match of systemd itself.
        own: the journal's field of a unit's own lines.
        user: who it is; None: the system.
    """

    flags: tuple[str, ...]
    state: Path
    memory: Path
    units: Path
    target: str
    told: tuple[str, str]
    teller: str
    own: str
    user: str | None


_SYSTEM = Scope(
    flags=(),
    state=Path("/var/lib/vllm-redeploy"),
    memory=Path("/run/vllm-redeploy"),
    units=Path("/etc/systemd/system"),
    target="multi-user.target",
    told=("UNIT", "INVOCATION_ID"),
    teller="_PID=1",
    own="_SYSTEMD_UNIT",
    user=None,
)
_chosen = _SYSTEM


def now() -> Scope:
    """Return the scope of this process."""
    return _chosen


def choose(words: list[str]) -> list[str]:
    """Take the scope from the words of a call, and return the others.

    Raises:
        Refusal: Whoever calls may not work in that scope.
    """
    global _chosen
    root = os.geteuid() == 0
    if words[:1] != [USER]:
        if not root:
            raise Refusal("not-root", "The supervisor has to be run by root.", _OR_OWN)
        _chosen = _SYSTEM
        return words
    if root:
        raise Refusal("root", "root has no units of its own here.", f"Leave out {USER}.")
    _chosen = _of_user(pwd.getpwuid(os.geteuid()))
    os.environ["XDG_RUNTIME_DIR"] = os.fspath(_chosen.memory.parent)
    return words[1:]


def again(*words: str) -> tuple[str, ...]:
    """Return the command by which this very program works in this scope."""
    return (sys.executable, os.fspath(Path(sys.argv[0]).resolve()), *_chosen.flags, *words)


def by_hand(program: str, *words: str) -> str:
    """Return how a person calls one of systemd's programs in this scope."""
    return " ".join((program, *_chosen.flags, *words))


def _of_user(user: pwd.struct_passwd) -> Scope:
    home = Path(user.pw_dir)
    return Scope(
        flags=(USER,),
        state=home / ".local/state/vllm-redeploy",
        memory=Path(f"/run/user/{user.pw_uid}/vllm-redeploy"),
        units=home / ".config/systemd/user",
        target="default.target",
        told=("USER_UNIT", "USER_INVOCATION_ID"),
        teller=f"_SYSTEMD_UNIT=user@{user.pw_uid}.service",
        own="_SYSTEMD_USER_UNIT",
        user=user.pw_name,
    )
