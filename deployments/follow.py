"""Run the flow in this process and tell it line by line, for `run` and `plan`."""

import getpass
import json
from pathlib import Path
from typing import Any, NoReturn

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
from tasks.request import Request


def follow(wish: dict[str, Any], config_file: Path | None, *, as_json: bool) -> NoReturn:
    """Run the flow for a wish, tell it line by line, and leave with its verdict's exit code.

    Exit codes: 0 done, 1 failed or refused, 2 the wish or the configuration is wrong.
    """
    try:
        request = _request(wish)
        service = _saved(request.service, config_file)
        with terminal.told(quiet=as_json):
            state = redeploy(request, return_state=True)
        run_id = request.resume or str(state.state_details.flow_run_id)
        drawn_up = state.result(raise_on_failure=False) if request.plan_only else None
        record = None if request.plan_only else _recorded(service, run_id)
    except RedeployError as error:
        terminal.give_up(error)
    good, message = state.is_completed(), state.message or str(state.type.value)
    if as_json:
        _print_json(run_id, good, message, record, drawn_up)
    else:
        _print(good, message, record, drawn_up)
    raise SystemExit(0 if good else 1)


def _request(wish: dict[str, Any]) -> Request:
    try:
        return Request(requested_by=getpass.getuser(), **wish)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{field}: {first['msg']}.", hint="Nothing was done.") from error


def _print(good: bool, message: str, record: ReleaseRecord | None, drawn_up: object) -> None:
    if record is not None:
        terminal.report(record)
        return
    if isinstance(drawn_up, Plan):
        terminal.plan(drawn_up)
    terminal.verdict(message, good=good)


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
