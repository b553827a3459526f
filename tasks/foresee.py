"""What a plan will cost: how long the service is down, and what runs on the host meanwhile."""

import shlex
from collections.abc import Sequence
from statistics import median

from blocks.service import Service
from blocks.supervisor import commands
from tasks.release import ReleaseRecord
from tasks.request import Strategy

_EXCHANGE = {
    "exchange": "(one system call) {environment} and the new environment change places",
    "two-step": "(two system calls) {environment} makes way for the new environment",
}
_INSTALL = "uv pip install --reinstall --no-deps --require-hashes -r LOCK (beside {environment})"


def down_time(records: Sequence[ReleaseRecord], strategy: Strategy) -> float | None:
    """Return the seconds that the service was down in redeploys of this kind, or None.

    The middle one of those that went live at their first start; what fails takes as long again.

    Args:
        records: what the host remembers.
        strategy: when the service is stopped.
    """
    seen = [
        one.stopped_seconds
        for one in records
        if one.strategy == strategy
        and one.result.startswith("live")
        and len(one.attempts) == 1
        and one.stopped_seconds is not None
    ]
    return median(seen) if seen else None


def between_stop_and_start(service: Service, strategy: Strategy, switch: str) -> list[str]:
    """Return what runs on the host while the service is down, in order.

    Args:
        service: the service.
        strategy: when the service is stopped.
        switch: how the environments change places, as the host was found to allow it.
    """
    words = {"environment": service.environment}
    install = [] if strategy is Strategy.STAGED else [_INSTALL.format(**words)]
    stop, *started = (
        _typed(command, user_units=service.host.user_units)
        for command in (
            commands.stop(service.unit),
            commands.reset_failed(service.unit),
            commands.start(service.unit),
        )
    )
    return [stop, *install, _EXCHANGE[switch].format(**words), *started]


def _typed(command: commands.Argv, *, user_units: bool) -> str:
    program, *words = command
    return shlex.join([program, *(["--user"] if user_units else []), *words])
