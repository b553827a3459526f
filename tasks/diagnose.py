"""Find the root cause of a failed start in its journal, and name what cures it."""

from typing import Any, get_args

from tasks import report
from tasks.artifacts import publish
from tasks.diagnosis.finding import Finding, diagnose
from tasks.diagnosis.journal import from_supervisor
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
    journal = _recorded(run, "journal", _journal_of(run, failure, launched))
    facts = _recorded(run, "facts", run.service.location())
    finding = examine(journal["entries"], facts, failure.kind, failure.fields)
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
    death = Death(
        kind=kind if kind in get_args(DeathKind) else "gone",
        unit=fields.get("unit") or {},
        last_stage=fields.get("last_stage"),
    )
    return diagnose(from_supervisor(entries), Facts.from_supervisor(facts), death)


def _journal_of(
    run: Redeployment, failure: StepFailed, launched: Launched | None
) -> dict[str, Any]:
    return {
        "unit": run.service.unit,
        "lines": JOURNAL_LINES,
        "invocation": launched.invocation if launched else failure.fields.get("invocation"),
        "since": launched.started if launched else None,
    }


def _recorded(run: Redeployment, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return run.do("diagnose", verb, arguments, operation=f"diagnose-{verb}")
