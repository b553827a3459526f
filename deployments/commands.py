"""The commands and their options. What they need is imported when they are called."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from blocks.types import Port
from tasks.request import SkewPolicy, Strategy

Config = Annotated[
    Path | None, Parameter(name="--config", help="The file with hosts and services.")
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for a program.")]


def run(
    service: str,
    target: str = "nightly",
    *,
    strategy: Strategy = Strategy.STAGED,
    skew: SkewPolicy = SkewPolicy.REPAIR,
    reinstall: bool = False,
    even_if_broken: bool = False,
    attempts: int = 3,
    benchmark: bool = True,
    wait_minutes: int = 0,
    reason: str = "",
    resume: str | None = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Redeploy a service to a target and follow it to the end.

    Parameters
    ----------
    service
        A service of the configuration.
    target
        `nightly`, `latest` (stable), an exact version, a commit, or a wheel: URL or path there.
    strategy
        When the service is stopped.
    skew
        What happens when packages are out of step.
    reinstall
        Go on when the target is what is installed already, or a nightly that was rejected here.
    even_if_broken
        Go on although the running release does not serve as configured.
    attempts
        How many starts before the way back.
    benchmark
        Run `vllm bench serve` at the end.
    wait_minutes
        How long to wait where another redeploy holds the environment; 0: refuse.
    reason
        Why; kept in the record.
    resume
        The id of a redeploy that was cut off.
    """
    wish = {
        "service": service,
        "target": target,
        "strategy": strategy,
        "skew": skew,
        "reinstall": reinstall,
        "even_if_broken": even_if_broken,
        "attempts": attempts,
        "benchmark": benchmark,
        "wait_minutes": wait_minutes,
        "reason": reason,
        "resume": resume,
    }
    _follow(wish, config, as_json=as_json)


def plan(
    service: str,
    target: str = "nightly",
    *,
    skew: SkewPolicy = SkewPolicy.REPAIR,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show what a redeploy would do: wheel, packages, commits, what is out of step.

    The exit code is 3 when a run of this plan would be refused.

    Parameters
    ----------
    service
        A service of the configuration.
    target
        `nightly`, `latest` (stable), an exact version, a commit, or a wheel: URL or path there.
    skew
        What would happen when packages are out of step.
    """
    wish = {"service": service, "target": target, "skew": skew, "plan_only": True}
    _follow(wish, config, as_json=as_json)


def resume(run: str, *, config: Config = None, as_json: AsJson = False) -> None:
    """Go on with a redeploy or a rollback that was cut off, where its host's record ends.

    Parameters
    ----------
    run
        Its id.
    """
    from deployments.resume import resume as go_on

    go_on(run, config, as_json=as_json)


def rollback(
    service: str, *, reason: str = "", config: Config = None, as_json: AsJson = False
) -> None:
    """Take a service back to the release that was live before the present one.

    Parameters
    ----------
    service
        A service of the configuration.
    reason
        Why; kept in the record.
    """
    from deployments.follow import follow_rollback

    follow_rollback({"service": service, "reason": reason}, config, as_json=as_json)


def hold(
    service: str,
    *,
    until: datetime | None = None,
    reason: str = "",
    config: Config = None,
) -> None:
    """Put a service on hold: no redeploy of it begins, whoever asks. Going back stays possible.

    Parameters
    ----------
    service
        A service of the configuration.
    until
        When it ends by itself, `2026-12-24T06:00`, in UTC unless it has an offset; without it, by
        `redeploy unhold`.
    reason
        Why; told to everybody who is refused.
    """
    from deployments.holding import hold as put_on_hold

    put_on_hold(service, until, reason, config)


def unhold(service: str, *, config: Config = None) -> None:
    """End the hold of a service.

    Parameters
    ----------
    service
        A service of the configuration.
    """
    from deployments.holding import unhold as lift

    lift(service, config)


def status(service: str, *, config: Config = None, as_json: AsJson = False) -> None:
    """Show what is live, who holds the environment, and the last redeploy.

    Parameters
    ----------
    service
        A service of the configuration.
    """
    from deployments import look

    look.status(service, config, as_json=as_json)


def history(service: str, *, config: Config = None, as_json: AsJson = False) -> None:
    """Show the redeploys that the service's host remembers, newest first.

    Parameters
    ----------
    service
        A service of the configuration.
    """
    from deployments import look

    look.history(service, config, as_json=as_json)


def diagnose(
    service: str | None = None,
    *,
    journal: Annotated[
        str | None,
        Parameter(help="A journal's file instead; `-`: stdin.", allow_leading_hyphen=True),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Say why a service does not run: by its host, or by a journal alone. Nothing is changed.

    A journal is `journalctl -o json` or `-o short-iso`, a program's bare output, or an installer's.
    The exit code is 3 when it could not tell.

    Parameters
    ----------
    service
        A service of the configuration.
    """
    if (service is None) == (journal is None):
        print("Name a service, or a journal with --journal FILE; not both.", file=sys.stderr)
        raise SystemExit(2)
    if journal is not None:
        from deployments.read_journal import diagnose_file

        diagnose_file(journal, as_json=as_json)
    elif service is not None:
        from deployments import look

        look.diagnose(service, config, as_json=as_json)


def serve(
    *, host: str = "127.0.0.1", port: Port = 4200, runs: int = 4, config: Config = None
) -> None:
    """Serve Prefect's UI and API and our deployments, until Ctrl-C.

    Prefect's UI knows no users: keep it on loopback, or behind something that does.

    Parameters
    ----------
    host
        The address to listen on.
    port
        The port to listen on.
    runs
        How many redeploys may be under way at once.
    """
    from deployments.serve import serve_forever

    serve_forever(host, port, runs, config)


def _follow(wish: dict[str, Any], config: Path | None, *, as_json: bool) -> None:
    try:
        from deployments.follow import follow
    except KeyboardInterrupt:
        print("Interrupted before anything was done.", file=sys.stderr)
        raise SystemExit(130) from None
    follow(wish, config, as_json=as_json)
