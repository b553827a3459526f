"""`redeploy run` and `redeploy plan`: the flow in this process, told line by line."""

import getpass
import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import ValidationError

from blocks import config
from blocks.errors import ConfigurationError, RedeployError
from blocks.service import Service
from blocks.settings import Settings
from blocks.supervisor_client import Supervisor
from deployments import terminal
from flows.redeploy import redeploy
from tasks.planned import Plan
from tasks.release import ReleaseRecord
from tasks.request import Request, SkewPolicy, Strategy

Config = Annotated[
    Path | None, Parameter(name="--config", help="The file with hosts and services.")
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for a program.")]


def run(
    service: str,
    target: str = "nightly",
    *,
    strategy: Strategy = Strategy.CLASSIC,
    skew: SkewPolicy = SkewPolicy.REFUSE,
    attempts: int = 3,
    benchmark: bool = True,
    reason: str = "",
    resume: str | None = None,
    config_file: Config = None,
    as_json: AsJson = False,
) -> None:
    """Redeploy a service to a target and follow it to the end.

    Parameters
    ----------
    service
        A service of the configuration.
    target
        `nightly`, an exact version, or a commit.
    strategy
        When the service is stopped.
    skew
        What happens when packages are out of step.
    attempts
        How many starts before the way back.
    benchmark
        Run `vllm bench serve` at the end.
    reason
        Why; kept in the record.
    resume
        The id of a redeploy that was cut off.
    """
    wish = _request(
        service=service,
        target=target,
        strategy=strategy,
        skew=skew,
        attempts=attempts,
        benchmark=benchmark,
        reason=reason,
        resume=resume,
    )
    _follow(wish, config_file, as_json)


def plan(
    service: str,
    target: str = "nightly",
    *,
    skew: SkewPolicy = SkewPolicy.REFUSE,
    config_file: Config = None,
    as_json: AsJson = False,
) -> None:
    """Resolve a target, compare it with what is installed, and change nothing.

    Parameters
    ----------
    service
        A service of the configuration.
    target
        `nightly`, an exact version, or a commit.
    skew
        What would happen when packages are out of step.
    """
    _follow(
        _request(service=service, target=target, skew=skew, plan_only=True), config_file, as_json
    )


def _request(**wish: Any) -> Request:
    try:
        return Request(requested_by=getpass.getuser(), **wish)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        terminal.give_up(
            ConfigurationError(f"{field}: {first['msg']}.", "Nothing was done."), code=2
        )


def _follow(wish: Request, config_file: Path | None, as_json: bool) -> None:
    try:
        service = _saved(wish.service, config_file)
        with terminal.told(quiet=as_json):
            state = redeploy(wish, return_state=True)
        run_id = wish.resume or str(state.state_details.flow_run_id)
        drawn_up = state.result(raise_on_failure=False) if wish.plan_only else None
        record = None if wish.plan_only else _recorded(service, run_id)
    except RedeployError as error:
        terminal.give_up(error, code=2 if isinstance(error, ConfigurationError) else 1)
    message = state.message or str(state.type.value)
    if as_json:
        _print_json(run_id, state.is_completed(), message, record, drawn_up)
    elif record:
        terminal.report(record)
    else:
        if isinstance(drawn_up, Plan):
            terminal.plan(drawn_up)
        terminal.verdict(message, good=state.is_completed())
    raise SystemExit(0 if state.is_completed() else 1)


def _saved(name: str, config_file: Path | None) -> Service:
    configuration = config.load(config_file or Settings().config)
    service = configuration.service(name)
    config.save(configuration)
    return service


def _recorded(service: Service, run_id: str) -> ReleaseRecord | None:
    try:
        found = Supervisor(service.host).call("history", {"environment": service.environment})
    finally:
        service.host.close()
    for one in found["releases"]:
        if one["id"] == run_id:
            return ReleaseRecord.model_validate(one)
    return None


def _print_json(
    run_id: str, good: bool, message: str, record: ReleaseRecord | None, drawn_up: object
) -> None:
    document = {
        "id": run_id,
        "ok": good,
        "verdict": message,
        "record": record.model_dump(mode="json", exclude={"lock"}) if record else None,
        "plan": drawn_up.model_dump(mode="json") if isinstance(drawn_up, Plan) else None,
    }
    print(json.dumps(document, indent=2))
