"""Run the flow in this process and tell it line by line, for `run` and `plan`."""

import getpass
import signal
from pathlib import Path
from typing import Any, NoReturn

from prefect.client.schemas.objects import State
from pydantic import BaseModel, ValidationError

from blocks import config
from blocks.errors import ConfigurationError, RedeployError
from blocks.service import Service
from blocks.settings import Settings
from blocks.supervisor_client import Supervisor
from deployments import terminal
from deployments.server import an_api
from flows.redeploy import redeploy
from tasks.planned import Plan
from tasks.release import ReleaseRecord
from tasks.request import Request


class Outcome(BaseModel):
    """How a run ended, for a program."""

    id: str
    ok: bool
    verdict: str
    record: ReleaseRecord | None = None
    plan: Plan | None = None


def follow(wish: dict[str, Any], config_file: Path | None, *, as_json: bool) -> NoReturn:
    """Run the flow for a wish, tell it line by line, and leave with its verdict's exit code.

    Exit codes: 0 done, 1 failed or refused, 2 the wish or the configuration is wrong, 130 Ctrl-C.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with terminal.errors_told():
            request = _request(wish)
            configuration = config.load(config_file or Settings().config)
            service = configuration.service(request.service)
            terminal.notice("Starting Prefect …")
            with an_api(), terminal.told(quiet=as_json):
                config.save(configuration)
                state = redeploy(request, return_state=True)
    except KeyboardInterrupt:
        terminal.interrupted(wish["service"])
        raise SystemExit(130) from None
    outcome = Outcome(
        id=request.resume or str(state.state_details.flow_run_id),
        ok=state.is_completed(),
        verdict=state.message or str(state.type.value),
    )
    if request.plan_only:
        outcome.plan = _plan_of(state)
    else:
        outcome.record = _recorded(service, outcome.id)
    if as_json:
        print(outcome.model_dump_json(indent=2, exclude={"record": {"lock"}, "plan": {"lock"}}))
    else:
        _print(outcome)
    raise SystemExit(0 if outcome.ok else 1)


def _print(outcome: Outcome) -> None:
    if outcome.record is not None:
        terminal.report(outcome.record)
    if outcome.plan is not None:
        terminal.plan(outcome.plan)
    terminal.verdict(outcome.verdict, good=outcome.ok)


def _plan_of(state: State[Any]) -> Plan | None:
    plan = state.result(raise_on_failure=False)
    return plan if isinstance(plan, Plan) else None


def _request(wish: dict[str, Any]) -> Request:
    try:
        return Request(requested_by=getpass.getuser(), **wish)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise ConfigurationError(
            f"{name}: {first['input']!r} will not do.", f"It is: {_described(name)}"
        ) from error


def _described(name: str) -> str:
    field = Request.model_fields.get(name)
    return (field.description if field else None) or "not known here."


def _recorded(service: Service, run_id: str) -> ReleaseRecord | None:
    """Return the host's record of a run; the verdict stands without it."""
    try:
        found = Supervisor(service.host).call("history", {"environment": service.environment})
    except RedeployError:
        return None
    finally:
        service.host.close()
    for one in found["releases"]:
        if one["id"] == run_id:
            return ReleaseRecord.model_validate(one)
    return None
