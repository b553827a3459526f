"""`redeploy hold` and `unhold`: a service that nobody is to redeploy for a time."""

import getpass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from blocks.errors import ConfigurationError
from blocks.types import OneLine
from deployments import terminal
from deployments.look import looking_at
from tasks.nightly import Hold


def hold(name: str, until: datetime | None, reason: str, config_file: Path | None) -> None:
    """Put a service's environment on hold, and say how it ends."""
    with looking_at(name, config_file) as (service, supervisor, _):
        wish = {
            "environment": service.environment,
            "who": getpass.getuser(),
            "why": _one_line(reason),
            "until": _ahead(until),
        }
        held = Hold.model_validate(supervisor.call("keep", wish)["hold"])
    end = "" if held.until else f" It ends by: redeploy unhold {name}"
    terminal.notice(f"{name} {held.in_words}.{end}")


def unhold(name: str, config_file: Path | None) -> None:
    """Let redeploys of a service begin again."""
    with looking_at(name, config_file) as (service, supervisor, _):
        wish = {"environment": service.environment, "who": getpass.getuser()}
        was = supervisor.call("unkeep", wish)["hold"]
    held = f"It was so since {terminal.clock(was['since'])}" if was else "It was not on hold"
    terminal.notice(f"{name} may be redeployed. {held}.")


def _ahead(until: datetime | None) -> float | None:
    if until is None:
        return None
    end = until if until.tzinfo else until.replace(tzinfo=UTC)
    if end <= datetime.now(UTC):
        raise ConfigurationError(f"{end:%Y-%m-%d %H:%M %Z} is over.", "Name a time to come.")
    return end.timestamp()


def _one_line(reason: str) -> str:
    try:
        return TypeAdapter(OneLine).validate_python(reason) or "no reason given"
    except ValidationError as error:
        raise ConfigurationError("The reason has to be one line of text.", "") from error
