"""Find the root cause of a failed start in its journal, and name what cures it."""

from typing import Any, get_args

from tasks import report
from tasks.artifacts import publish
from tasks.diagnosis.finding import Finding, diagnose, package_asked_for
from tasks.diagnosis.journal import from_supervisor
from tasks.diagnosis.rules.flashinfer import own_index
from tasks.diagnosis.symptoms import Death, DeathKind, Facts
from tasks.errors import StepFailed
from tasks.redeployment import Redeployment
from tasks.start import Launched
from tasks.steps import step

JOURNAL_LINES = 2000


@step("diagnose")
def find_cause(run: Redeployment, failure: StepFailed, launched: Launched | None) -> Finding:
    """Return what the journal and the host say about a failed start.

    Args:
        run: the redeploy.
        failure: how the start failed.
        launched: the start, if systemd accepted it and it is the start that failed.
    """
    journal = _recorded(run, "journal", journal_of(run, failure, launched))
    found = _recorded(run, "facts", run.service.location())
    entries, death = from_supervisor(journal["entries"]), _death(failure.kind, failure.fields)
    facts = Facts.from_supervisor(found)
    wanted = package_asked_for(entries, facts, death)
    if wanted:
        facts = facts.model_copy(update={"resolvable": who_offers(run, wanted)})
    finding = diagnose(entries, facts, death)
    publish(run, "diagnosis", report.diagnosis_page(finding, failure), finding.headline)
    run.log(finding.headline)
    return finding


def examine(
    entries: list[dict[str, Any]], facts: dict[str, Any], kind: str, fields: dict[str, Any]
) -> Finding:
    """Return the finding for a journal and the host's facts.

    Args:
        entries: the journal as the supervisor gives it.
        facts: the facts as the supervisor gives them.
        kind: how the service ended, in the supervisor's word.
        fields: `unit` as systemd shows it, and `last_stage`, if known.
    """
    return diagnose(from_supervisor(entries), Facts.from_supervisor(facts), _death(kind, fields))


def _death(kind: str, fields: dict[str, Any]) -> Death:
    return Death(
        kind=kind if kind in get_args(DeathKind) else "gone",
        unit=fields.get("unit") or {},
        last_stage=fields.get("last_stage"),
    )


def who_offers(run: Redeployment, package: str) -> frozenset[str]:
    """Ask the service's indexes for a package, and FlashInfer's own where they have it not.

    One that cannot be asked offers nothing. What vLLM downloads by itself is offered always:
    whether it can is seen when it is tried.
    """
    service = run.service
    for source, first in (("configured", []), ("flashinfer", [own_index(package)])):
        arguments = {
            "environment": service.environment,
            "requirements": [package],
            "first_indexes": first,
            "indexes": service.indexes,
        }
        try:
            run.do("diagnose", "resolve", arguments, operation=f"diagnose-{source}")
        except StepFailed:
            continue
        return frozenset({source, "download"})
    return frozenset({"download"})


def journal_of(run: Redeployment, failure: StepFailed, launched: Launched | None) -> dict[str, Any]:
    """Return which part of the journal is about a failed start.

    What earlier starts died of is not why one was not begun, so of such only what came since.
    """
    invocation = launched.invocation if launched else failure.fields.get("invocation")
    since = launched.started if launched else None
    if invocation is None:
        since = next((one["started"] for one in run.recorded(run.phase)), None)
    return {
        "unit": run.service.unit,
        "lines": JOURNAL_LINES,
        "invocation": invocation,
        "since": since,
    }


def _recorded(run: Redeployment, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return run.do("diagnose", verb, arguments, operation=f"diagnose-{verb}")
