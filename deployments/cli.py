"""The command line."""

import os
import signal
import sys
import warnings
from collections.abc import Sequence

from cyclopts import App

from deployments import commands, sandbox_commands

app = App(
    name="redeploy",
    help="Redeploy vLLM services over SSH: planned, watched, cured, and never left down.",
    suppress_keyboard_interrupt=False,
)
for command in (
    commands.run,
    commands.plan,
    commands.rollback,
    commands.resume,
    commands.hold,
    commands.unhold,
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warnings.filterwarnings("ignore", "Failed to create the Prefect home")  # we say it ourselves
    for name, value in _PREFECT.items():
        os.environ.setdefault(name, value)
    try:
        app(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
