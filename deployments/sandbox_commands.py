"""`redeploy sandbox up|down|list`: real hosts on this machine to try a redeploy on."""

import json
from dataclasses import asdict

from cyclopts import App

from deployments.commands import AsJson

app = App(name="sandbox", help="Real systemd hosts on this machine to try it on.")


@app.command
def up(name: str = "demo", *, story: str = "kimi") -> None:
    """Boot a host, lay out a story on it, and say where its configuration is.

    Parameters
    ----------
    name
        The host's name, short and lower case.
    story
        What to lay out: `kimi`, `second`, `small` or `embed`.
    """
    from deployments import terminal
    from deployments.sandbox.cli import sandbox_up

    with terminal.errors_told():
        path = sandbox_up(name, story)
    terminal.out.print(f"{name} is up. Configuration: {path}", highlight=False, soft_wrap=True)


@app.command
def down(name: str = "demo", *, all_: bool = False) -> None:
    """Take a host off this machine with all that is its own.

    Parameters
    ----------
    name
        The host's name.
    all_
        Take all that this checkout made; those of others on this machine stay.
    """
    from deployments import terminal
    from deployments.sandbox.cli import sandbox_down, sandbox_list

    with terminal.errors_told():
        found = sandbox_list() if all_ else []
        for one in [host.name for host in found if host.is_ours] if all_ else [name]:
            sandbox_down(one)
            terminal.out.print(f"{one} is gone.", highlight=False)
        for host in (host for host in found if not host.is_ours):
            left = f"{host.name} stays, it was made by {host.checkout or 'an older version'}."
            take = f"To take it too: redeploy sandbox down {host.name}"
            terminal.out.print(f"{left} {take}", highlight=False, soft_wrap=True)


@app.command(name="list")
def list_(*, as_json: AsJson = False) -> None:
    """Show the hosts on this machine."""
    from rich.table import Table

    from deployments import terminal
    from deployments.sandbox.cli import sandbox_list

    with terminal.errors_told():
        hosts = sandbox_list()
    if as_json:
        print(json.dumps([asdict(host) for host in hosts], indent=2))
        return
    table = Table("host", "address", "state")
    for host in hosts:
        table.add_row(host.name, host.address, host.state)
    terminal.out.print(table)
