"""The starts that a host remembers, as a measure for the one under way."""

from typing import Any

from tasks.artifacts import best_effort
from tasks.redeployment import Redeployment
from tasks.release import StartRecord
from tasks.startup.history import History, Start, comparable, flags_of


def earlier_starts(run: Redeployment, version: str) -> History:
    """Return the earlier starts that are most like one of this service at a version.

    None where they cannot be had: they are a measure, and no start fails for want of one.
    """
    with best_effort(run, "what earlier starts took"):
        asked = {"environment": run.service.environment}
        found = run.supervisor.call("history", asked)["releases"]
        return comparable(remembered(found), present_start(run, version))
    return History((), "")


def present_start(run: Redeployment, version: str) -> Start:
    """Return what is known of a start of this service before it has run."""
    service, before = run.service, run.before
    argv = before.unit.exec_start[0] if before and before.unit.exec_start else []
    return Start(
        host=before.host.name if before else service.host.address,
        model=service.model or service.served_model or "",
        flags=flags_of(argv),
        version=version,
    )


def remembered(releases: list[dict[str, Any]]) -> list[Start]:
    """Return the starts in the records of redeploys, newest first."""
    records = [
        StartRecord.model_validate(start)
        for release in releases
        for start in reversed(release.get("starts", []))
    ]
    return [
        Start(one.host, one.model, tuple(one.flags), one.version, one.seconds, one.cache)
        for one in records
    ]
