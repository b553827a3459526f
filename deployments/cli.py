"""The command line. Commands are imported when they are called, so that `--help` is quick."""

import os
import sys

from cyclopts import App

app = App(
    name="redeploy",
    help="Redeploy vLLM services over SSH: planned, watched, cured, and never left down.",
    version_flags=["--version"],
)
app.command("deployments.run:run", name="run", help="Redeploy a service.")
app.command(
    "deployments.run:plan", name="plan", help="Show what a redeploy would do; change nothing."
)
app.command(
    "deployments.look:status", name="status", help="What is live on a host, and who holds it."
)
app.command("deployments.look:history", name="history", help="The redeploys a host remembers.")
app.command(
    "deployments.look:diagnose", name="diagnose", help="Find out why a service does not run."
)
app.command(
    "deployments.serve:serve", name="serve", help="Prefect's server, UI and our deployments."
)
app.command("deployments.sandbox.cli:app", name="sandbox", help="Real hosts to try it on.")

_PREFECT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_CLI_PROMPT": "false",
}


def main() -> None:
    """Run the command line; Prefect's own console output stays out of it."""
    for name, value in _PREFECT.items():
        os.environ.setdefault(name, value)
    app(sys.argv[1:])
