"""`make demo`: the story of the crash, on a real host, from the first line to the last."""

import os
import sys
from pathlib import Path

from deployments import cli, terminal
from deployments.sandbox.cli import sandbox_up

STORY = "kimi"
SERVICE = "kimi"
_BEFORE = """[bold]A real host[/], booted by systemd-nspawn: its own systemd, journald, sshd and uv.
Its service runs a nightly of vLLM (a stand-in: there is no GPU here). A newer nightly is out. It
needs flashinfer-python 0.6.4 and says nothing of flashinfer-cubin, which stays at 0.6.3.
The first redeploy is told to let that through: [bold]watch it crash, and be cured[/]."""
_BETWEEN = (
    "\n[bold]Now back to the old release[/], which lies beside the new one: nothing is installed."
)
_AGAIN = """
[bold]And the same nightly once more[/], as it is done unless told otherwise: the plan sees what was
left behind, and it is put right beside the running release, before anything is stopped."""
_AFTER = """
[bold]Look at it in Prefect's UI:[/]
  PREFECT_HOME={home} {redeploy} serve --config {config}
  then open http://127.0.0.1:4200/runs
[bold]Take the host away again:[/]
  {redeploy} sandbox down {name}"""
WAYS = ("--skew proceed", "--skew repair")


def main(name: str) -> None:
    """Boot the host, tell the story both ways, and say how to look at it."""
    with terminal.errors_told():
        config = sandbox_up(name, STORY)
    home = config.parent / "prefect"
    os.environ["PREFECT_HOME"] = str(home)
    from deployments.look import records_of  # loads Prefect, which looks for its home

    try:
        _say(_BEFORE)
        _call(config, "run", SERVICE, *WAYS[0].split(), "--reason", "make demo")
        _say(_BETWEEN)
        _call(config, "rollback", SERVICE, "--reason", "make demo")
        _say(_AGAIN)
        _call(config, "run", SERVICE, *WAYS[1].split(), "--reason", "make demo")
        again, _, first = records_of(SERVICE, config)[:3]
        terminal.side_by_side(dict(zip(WAYS, (first, again), strict=True)))
    finally:
        redeploy = Path(sys.prefix, "bin", "redeploy")
        _say(_AFTER.format(home=home, redeploy=redeploy, config=config, name=name))


def _say(text: str) -> None:
    terminal.out.print(text, highlight=False, soft_wrap=True)


def _call(config: Path, *words: str) -> None:
    """Run a command as from the command line; one that fails ends the demo."""
    try:
        cli.main([*words, "--config", str(config)])
    except SystemExit as ended:
        if ended.code:
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
