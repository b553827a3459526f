"""Runs uv (and the environment's own programs) as the environment's owner."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, environment, processes
from blocks.supervisor.environment import Owner
from blocks.supervisor.failures import Failure

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED_ON = ("UV_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "LANG")
_LONGEST_SECONDS = 4 * 3600
_RETRIES = "6"  # some minutes of a lost network; uv's own three are over after 12 s
_ETC_ENVIRONMENT = Path("/etc/environment")


def find(owner: Owner) -> str | None:
    """Return the path of uv: on the system's path, else where its installer puts it."""
    own = [f"{owner.home}/.local/bin", f"{owner.home}/.cargo/bin", "/root/.local/bin"]
    places = own if owner.uid == 0 else own[:2]
    return shutil.which("uv", path=os.pathsep.join([SYSTEM_PATH, *places]))


def require(owner: Owner) -> str:
    """Return the path of uv.

    Raises:
        Failure: There is none.
    """
    found = find(owner)
    if found is None:
        raise Failure(
            "no-uv",
            f"There is no uv for {owner.name} on this host.",
            "Install uv to /usr/local/bin.",
        )
    return found


def owner_environment(owner: Owner) -> dict[str, str]:
    """Return the variables that a program of the owner gets.

    Those of the host (systemd's defaults, /etc/environment) that say where packages come from,
    and no others: the file may hold secrets that are none of ours.
    """
    given = {**dict(os.environ), **etc_environment(_ETC_ENVIRONMENT)}
    passed = {key: given[key] for key in given if key.upper().startswith(_PASSED_ON)}
    return {
        **passed,
        "PATH": SYSTEM_PATH,
        "HOME": owner.home,
        "USER": owner.name,
        "LOGNAME": owner.name,
        "UV_PYTHON_DOWNLOADS": "never",
    }


def etc_environment(path: Path) -> dict[str, str]:
    """Return the assignments of a file like /etc/environment."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    pairs = (line.strip().partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {
        name.replace("export ", "").strip(): value.strip().strip("\"'")
        for name, separator, value in pairs
        if separator
    }


def as_owner(owner: Owner, command: Sequence[str]) -> commands.Argv:
    """Return the command as one that the owner runs."""
    return commands.as_user(owner.uid, owner.gid, command)


def stream_as_owner(
    owner: Owner, argv: Sequence[str], *, more: Mapping[str, str] | None = None, **options: Any
) -> processes.Ended:
    """Run a whole argument vector in the owner's variables and some more, its output passed on."""
    options.setdefault("timeout", _LONGEST_SECONDS)
    variables = {"UV_HTTP_RETRIES": _RETRIES, **owner_environment(owner), **(more or {})}
    return processes.stream(argv, environment=variables, **options)


def run_as_owner(owner: Owner, command: Sequence[str], *, data: str = "") -> processes.Ended:
    """Run a command as the owner and keep what it prints."""
    return processes.run(
        as_owner(owner, command),
        data=data,
        environment=owner_environment(owner),
        timeout=_LONGEST_SECONDS,
    )


def facts(path: str) -> dict[str, Any] | None:
    """Return which uv would install into an environment."""
    folder = Path(path)
    if not folder.is_dir():
        return None
    try:
        owner = environment.owner(folder)
    except Failure:
        return None
    found = find(owner)
    if found is None:
        return None
    ended = processes.run(as_owner(owner, (found, "--version")))
    words = ended.output.split()
    return {"path": found, "version": words[1] if len(words) > 1 else "unknown"}


def words_of(ended: processes.Ended, at_most: int = 4000) -> str:
    """Return uv's own words about a failure, the last ones if there are many."""
    return ended.output.strip()[-at_most:] or f"it ended with exit status {ended.exit}"
