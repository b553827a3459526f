"""The systemd unit of an environment's guard: it is there only while a redeploy is under way."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from blocks.supervisor import commands, foreign, processes, scope, store
from blocks.supervisor.failures import Failure, Refusal, Told

GUARD = "guard"
"""The verb by which a guard works."""
_UNIT = """\
[Unit]
Description=Ends a redeploy of {environment} that fell silent
StartLimitIntervalSec=0
[Service]
Type=notify
TimeoutStartSec=50
ExecStart={command}
Restart=on-failure
RestartSec=5
[Install]
WantedBy={target}
"""


def name_of(key: str) -> str:
    """Return the name of the unit that guards an environment, by the environment's short name."""
    return f"redeploy-guard-{key[:16]}.service"


def install(key: str, environment: str) -> None:
    """Write the unit, have it started now and after each reboot; it is at work on return.

    Raises:
        Failure: It could not be written, systemd refused, or it did not get to work.
    """
    path = scope.now().units / name_of(key)
    text = _UNIT.format(
        environment=environment.replace("%", "%%"),
        command=_command(scope.again(GUARD, key)),
        target=scope.now().target,
    )
    try:
        store.write_text(path, text)
    except OSError as error:
        raise _refused(Failure, f"{os.fspath(path)}: {error.strerror}") from error
    for argv in (commands.daemon_reload(), commands.enable_now(path.name)):
        ended = processes.run(argv, timeout=60)
        if ended.exit != 0:
            raise _refused(Failure, foreign.last_words(ended.errors, 500))


def stand(key: str) -> None:
    """Have the guard at work, as it was when it was installed.

    Raises:
        Refusal: It does not get to work.
    """
    ended = processes.run(commands.start_and_wait(name_of(key)), timeout=60)
    if ended.exit != 0:
        raise _refused(Refusal, foreign.last_words(ended.errors, 500))


def tell_at_work() -> None:
    """Tell systemd, which waits for it, that the guard is at work."""
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
            door.sendto(b"READY=1", address.replace("@", "\0", 1))


def remove(key: str) -> None:
    """End the guard and take its unit away; where that is not to be had, it ends by itself."""
    path = scope.now().units / name_of(key)
    if path.exists():
        processes.run(commands.disable(path.name), timeout=60)
        path.unlink(missing_ok=True)
        processes.run(commands.daemon_reload(), timeout=60)
        processes.run(commands.stop(path.name), timeout=60)
        processes.run(commands.reset_failed(path.name), timeout=60)


def _command(words: Sequence[str]) -> str:
    """Write a command as systemd reads it; of the program's own name no `$` is substituted."""
    program, *others = (word.replace("%", "%%") for word in words)
    return " ".join(map(_quoted, (program, *(word.replace("$", "$$") for word in others))))


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _refused(told: type[Told], why: str) -> Told:
    return told(
        "no-guard",
        f"This host could not be set to go back by itself: {why}",
        "The service was not stopped. See whether systemd takes units here, and "
        f"{scope.by_hand('journalctl', '-u')} 'redeploy-guard-*'.",
    )
