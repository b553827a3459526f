"""Starts an operation outside of whoever asked for it: as a transient systemd unit."""

from __future__ import annotations

import hashlib
from typing import Protocol

from blocks.supervisor import commands, foreign, processes, scope, units
from blocks.supervisor.failures import Refusal

EXECUTE = "execute"
"""The verb by which an operation is carried out."""


class Launcher(Protocol):
    """What the operations need of the machine."""

    def start(self, operation: str) -> None:
        """Have `execute OPERATION` run, apart from us."""

    def running(self, operation: str) -> bool:
        """Tell whether it still runs."""

    def end(self, operation: str) -> None:
        """End a run, wherever it is."""

    def forget(self, operation: str) -> None:
        """Forget what a killed run left."""


def unit_of(operation: str) -> str:
    """Return the name of an operation's transient unit."""
    return f"redeploy-op-{hashlib.sha256(operation.encode()).hexdigest()[:16]}.service"


class SystemdLauncher:
    """Transient units of the system's systemd."""

    def start(self, operation: str) -> None:
        """Start the unit; what an earlier, killed run left of it is forgotten first."""
        unit = unit_of(operation)
        self.forget(operation)
        command = scope.again(EXECUTE, operation)
        ended = processes.run(
            commands.transient(unit, f"vllm-redeploy {operation}", command), timeout=60
        )
        if ended.exit != 0:
            raise Refusal(
                "not-started",
                f"systemd did not start the operation: {foreign.last_words(ended.errors, 500)}",
                "Run systemd-run on the host by hand to see more.",
            )

    def forget(self, operation: str) -> None:
        """Have systemd forget a failed unit."""
        processes.run(commands.reset_failed(unit_of(operation)))

    def end(self, operation: str) -> None:
        """Stop the unit and wait until it is gone."""
        processes.run(commands.stop_and_wait(unit_of(operation)), timeout=60)

    def running(self, operation: str) -> bool:
        """Tell whether the unit is anything but gone, failed or over."""
        state = units.state(unit_of(operation))
        return state["load_state"] == "loaded" and state["active_state"] in (
            "active",
            "activating",
            "deactivating",
            "reloading",
        )
