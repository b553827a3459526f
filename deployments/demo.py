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
The redeploy is told to let that through: [bold]watch it crash[/]."""
_AFTER = """
[bold]Look at it in Prefect's UI:[/]
  PREFECT_HOME={home} {redeploy} serve --config {config}
  then open http://127.0.0.1:4200/runs
[bold]Take the host away again:[/]
  {redeploy} sandbox down {name}"""


def main(name: str) -> None:
    """Boot the host, run the story, and say how to look at it."""
    with terminal.errors_told():
        config = sandbox_up(name, STORY)
    terminal.out.print(_BEFORE, highlight=False, soft_wrap=True)
    home = config.parent / "prefect"
    os.environ["PREFECT_HOME"] = str(home)
    wish = ["--skew", "proceed", "--reason", "make demo"]
    try:
        cli.main(["run", SERVICE, *wish, "--config", str(config)])
    finally:
        redeploy = Path(sys.prefix, "bin", "redeploy")
        said = _AFTER.format(home=home, redeploy=redeploy, config=config, name=name)
        terminal.out.print(said, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
