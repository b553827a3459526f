"""Run the flow in this process and tell it line by line, for `run` and `plan`."""

import getpass
from pathlib import Path
from typing import Any, NoReturn

from prefect import Flow
from prefect.client.schemas.objects import State
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from blocks import config
from blocks.errors import ConfigurationError, RedeployError
from blocks.service import Service
from blocks.settings import Settings
from blocks.supervisor_client import Supervisor
from deployments import terminal
from deployments.server import an_api
from flows.redeploy import redeploy
from flows.rollback import rollback
from tasks.plan import WOULD_BE_REFUSED
from tasks.planned import Plan
from tasks.release import ReleaseRecord
from tasks.request import PREVIOUS, Request


class Outcome(BaseModel):
    """How a run ended, for a program."""

    id: str
    ok: bool
    verdict: str
    record: ReleaseRecord | None = None
    plan: Plan | None = None


def follow(wish: dict[str, Any], config_file: Path | None, *, as_json: bool) -> NoReturn:
    """Run the flow for a wish, tell it line by line, and leave with its verdict's exit code.

    Exit codes: 0 done, 1 failed or refused, 2 the wish or the configuration is wrong, 3 a run of
    this plan would be refused, 130 Ctrl-C.
    """
    with terminal.errors_told():
        request = _request(wish)
    _tell(redeploy, {"request": request}, request, config_file, as_json=as_json)


def follow_rollback(wish: dict[str, Any], config_file: Path | None, *, as_json: bool) -> NoReturn:
    """Run the flow that goes back, and tell it as `follow` does.

    Args:
        wish: the service, and why or which rollback is to be gone on with.
        config_file: the configuration.
        as_json: whether a program reads it.
    """
    with terminal.errors_told():
        request = _request({**wish, "target": PREVIOUS})
    asked = {**wish, "requested_by": request.requested_by}
    _tell(rollback, asked, request, config_file, as_json=as_json)


def _tell(
    flow: Flow[..., State[Any]],
    asked: dict[str, Any],
    request: Request,
    config_file: Path | None,
    *,
    as_json: bool,
) -> NoReturn:
    begun = [request.resume] if request.resume else []
    drains = False
    noted = flow.with_options(on_running=[lambda _, run, __: begun.append(str(run.id))])
    try:
        with terminal.errors_told():
            configuration = config.load(config_file or Settings().config)
            service = configuration.service(request.service)
            drains = service.drain is not None
            terminal.notice("Starting Prefect …")
            with an_api(), terminal.told(quiet=as_json) as lines:
                config.save(configuration)
                state = noted(**asked, return_state=True)
    except KeyboardInterrupt:
        terminal.interrupted(request.service, begun[0] if begun else None, drains=drains)
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
        _print(outcome, lines.last_error)
    raise SystemExit(_exit_code(outcome))


def _exit_code(outcome: Outcome) -> int:
    if outcome.plan is not None and WOULD_BE_REFUSED in outcome.verdict:
        return 3
    return 0 if outcome.ok else 1


def _print(outcome: Outcome, said: str) -> None:
    if outcome.record is not None:
        terminal.report(outcome.record)
    if outcome.plan is not None:
        terminal.plan(outcome.plan)
    # What the last line said already is not said twice.
    new = outcome.verdict if outcome.record else outcome.verdict.removeprefix(said).strip()
    if new:
        terminal.verdict(new, good=outcome.ok)


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
            f"{name}: {str(first['input'])[:80]!r} will not do: {_why(first)}.", _described(name)
        ) from error


def _why(mistake: ErrorDetails) -> str:
    if mistake["type"] == "string_pattern_mismatch":
        return "it is none of those"
    said = mistake["msg"].removeprefix("Value error, ").rstrip(".")
    return said[:1].lower() + said[1:]


def _described(name: str) -> str:
    field = Request.model_fields.get(name)
    return f"It is: {field.description}" if field else ""


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
