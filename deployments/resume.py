"""Find which service a redeploy was of, and go on with it."""

from pathlib import Path
from typing import NoReturn

from blocks import config
from blocks.errors import ConfigurationError, RedeployError
from blocks.service import Service
from blocks.settings import Settings
from blocks.supervisor_client import Supervisor
from deployments import terminal
from deployments.follow import follow


def resume(run_id: str, config_file: Path | None, *, as_json: bool) -> NoReturn:
    """Go on with a redeploy by its id alone, as `follow` does."""
    with terminal.errors_told():
        configuration = config.load(config_file or Settings().config)
        service = _service_of(run_id, configuration)
    follow({"service": service, "resume": run_id}, config_file, as_json=as_json)


def _service_of(run_id: str, configuration: config.Configuration) -> str:
    """Ask each host of the configuration whether it knows a redeploy.

    Raises:
        ConfigurationError: none of those that answer does.
    """
    silent = []
    for name, service in configuration.services.items():
        try:
            if _unit_of(run_id, service) == service.unit:
                return name
        except RedeployError as error:
            silent.append(f"{name}: {error.message}")
    hint = f"Not asked: {' '.join(silent)}" if silent else "See: redeploy history SERVICE."
    raise ConfigurationError(f"No host of the configuration knows a redeploy {run_id!r}.", hint)


def _unit_of(run_id: str, service: Service) -> str | None:
    """Return the unit that a redeploy was of, as its host has written it down."""
    supervisor = Supervisor(service.host)
    try:
        supervisor.install()
        asked = supervisor.call("recorded", {"operation": f"{run_id}/request"})["answer"]
        return asked["result"]["document"]["unit"] if asked and asked["result"] else None
    finally:
        service.host.close()
