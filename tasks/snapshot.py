"""Read the host as it is before anything changes; the restore point of this redeploy."""

from datetime import UTC, datetime

from blocks.errors import RedeployError
from tasks.errors import StepFailed
from tasks.facts import Facts
from tasks.redeployment import Redeployment
from tasks.steps import step


@step("snapshot")
def snapshot(run: Redeployment) -> Facts:
    """Return the facts of the host, recorded there under this redeploy.

    Raises:
        StepFailed: the unit or the environment is not what the service says.
    """
    facts = Facts.model_validate(run.do("snapshot", "facts", run.service.location()))
    problem = unusable(facts, run.service.unit, run.service.distribution)
    if problem:
        raise StepFailed("snapshot", "not-as-configured", problem, hint="Nothing was changed.")
    run.log(
        f"{facts.host.name}: {run.service.distribution} "
        f"{facts.environment.versions()[run.service.distribution]}, "
        f"{len(facts.environment.packages)} packages, unit {facts.unit.active_state}, "
        f"{gpus_in_words(facts)}"
    )
    return facts


def unusable(facts: Facts, unit: str, distribution: str) -> str | None:
    """Return why this host cannot be redeployed as configured, or None."""
    if not facts.unit.exists:
        return f"systemd does not know {unit} (LoadState={facts.unit.load_state})."
    if facts.environment.problem:
        return f"{facts.environment.path} could not be looked at: {facts.environment.problem}"
    if not facts.environment.exists or facts.environment.python is None:
        return f"{facts.environment.path} is not a Python environment."
    if distribution not in facts.environment.versions():
        return f"{distribution} is not installed in {facts.environment.path}."
    if facts.uv is None:
        return "There is no uv on the host."
    return None


def state_in_words(run: Redeployment) -> str:
    """Return what a verdict says of a service that nobody has seen serve: since when, what to try.

    A unit that runs is no better: it may crash and be restarted for ever, or hang.
    """
    try:
        unit = Facts.model_validate(run.supervisor.call("facts", run.service.location())).unit
    except RedeployError as error:
        return f"UNKNOWN whether {run.service.unit} runs: {error}"
    stopped = min((one["started"] for one in run.stops()), default=None)
    since = f" since {datetime.fromtimestamp(stopped, UTC):%H:%M:%S} UTC" if stopped else ""
    host = run.service.host
    systemctl = "systemctl --user" if host.user_units else "sudo systemctl"
    attempt = f"Try on {host.address}: {systemctl} restart {run.service.unit}."
    if unit.active_state in ("active", "activating"):
        return f"DOWN{since}: {run.service.unit} runs, but does not serve. {attempt}"
    return f"DOWN{since}. {attempt}"


def gpus_in_words(facts: Facts) -> str:
    """Return the GPUs in a few words."""
    if not facts.gpus.gpus:
        return "no GPU"
    return f"{len(facts.gpus.gpus)} GPUs ({facts.gpus.gpus[0].name}), driver {facts.gpus.driver}"
