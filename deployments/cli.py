"""The command line."""

import os
import sys
from collections.abc import Sequence

from cyclopts import App

from deployments import commands, sandbox_commands

app = App(
    name="redeploy",
    help="Redeploy vLLM services over SSH: planned, watched, cured, and never left down.",
)
for command in (
    commands.run,
    commands.plan,
    commands.status,
    commands.history,
    commands.diagnose,
    commands.serve,
):
    app.command(command)
app.command(sandbox_commands.app)

_PREFECT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}
"""Nothing is reported to anybody, a slow machine may be slow, and the terminal is ours."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; without arguments given, those of the process."""
    for name, value in _PREFECT.items():
        os.environ.setdefault(name, value)
    app(sys.argv[1:] if argv is None else argv)
