"""Find which service a redeploy or a rollback was of, and go on with it."""

from pathlib import Path
from typing import Any, NoReturn

from blocks import config
from blocks.errors import ConfigurationError, RedeployError
from blocks.service import Service
from blocks.settings import Settings
from blocks.supervisor_client import Supervisor
from deployments import terminal
from deployments.follow import follow, follow_rollback
from tasks.request import PREVIOUS


def resume(run_id: str, config_file: Path | None, *, as_json: bool) -> NoReturn:
    """Go on with a redeploy or a rollback by its id alone, as `follow` does."""
    with terminal.errors_told():
        configuration = config.load(config_file or Settings().config)
        service, back = _service_of(run_id, configuration)
    go_on = follow_rollback if back else follow
    go_on({"service": service, "resume": run_id}, config_file, as_json=as_json)


def _service_of(run_id: str, configuration: config.Configuration) -> tuple[str, bool]:
    """Return the service that a run was of, and whether it was a rollback.

    Ask each host of the configuration whether it knows a redeploy.

    Raises:
        ConfigurationError: none of those that answer does.
    """
    silent = []
    for name, service in configuration.services.items():
        try:
            wish = _wish_of(run_id, service)
            if wish and wish["unit"] == service.unit:
                return name, wish["request"]["target"] == PREVIOUS
        except RedeployError as error:
            silent.append(f"{name}: {error.message}")
    hint = f"Not asked: {' '.join(silent)}" if silent else "See: redeploy history SERVICE."
    raise ConfigurationError(f"No host of the configuration knows a redeploy {run_id!r}.", hint)


def _wish_of(run_id: str, service: Service) -> dict[str, Any] | None:
    """Return what was asked for, of which unit, as the host has written it down."""
    supervisor = Supervisor(service.host)
    try:
        supervisor.install()
        asked = supervisor.call("recorded", {"operation": f"{run_id}/request"})["answer"]
        return asked["result"]["document"] if asked and asked["result"] else None
    finally:
        service.host.close()
