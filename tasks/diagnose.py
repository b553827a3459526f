"""Find the root cause of a failed start in its journal, and name what cures it."""

from typing import Any

from prefect.artifacts import create_markdown_artifact

from tasks.artifacts import key
from tasks.diagnosis.engine import Death, Evidence, diagnose
from tasks.diagnosis.finding import Finding
from tasks.diagnosis.journal import from_supervisor
from tasks.errors import StepFailed
from tasks.facts import Facts
from tasks.packages.families import Installed
from tasks.redeployment import Redeployment
from tasks.report import diagnosis_page
from tasks.start import Launched
from tasks.steps import POLICIES, step

_JOURNAL_LINES = 2000


@step("diagnose")
def find_cause(run: Redeployment, failure: StepFailed, launched: Launched | None) -> Finding:
    """Return what the journal and the host say about a failed start.

    Args:
        run: the redeploy.
        failure: how the start failed.
        launched: the start, if systemd accepted it.
    """
    entries = _recorded(run, "journal", _journal_of(run, launched))["entries"]
    facts = Facts.model_validate(_recorded(run, "facts", run.service.location()))
    finding = examine(entries, facts, failure.kind, failure.fields.get("unit") or {})
    create_markdown_artifact(
        diagnosis_page(finding, failure), key=key(run, "diagnosis"), description=finding.explanation
    )
    run.say(finding.explanation)
    return finding


def examine(
    entries: list[dict[str, Any]], facts: Facts, kind: str, unit: dict[str, Any]
) -> Finding:
    """Return the finding for a journal and the host's facts.

    Args:
        entries: the journal as the supervisor gives it.
        facts: the host as it is.
        kind: how the service ended, in the supervisor's or systemd's word.
        unit: what `systemctl show` said then.
    """
    return diagnose(
        from_supervisor(entries), Evidence(packages=installed(facts)), Death(kind=kind, unit=unit)
    )


def installed(facts: Facts) -> list[Installed]:
    """Return the installed packages as the rules of families read them."""
    return [
        Installed(package.name, package.version, tuple(package.requires))
        for package in facts.environment.packages
    ]


def _journal_of(run: Redeployment, launched: Launched | None) -> dict[str, Any]:
    wanted: dict[str, Any] = {"unit": run.service.unit, "lines": _JOURNAL_LINES}
    if launched is not None:
        wanted |= {"invocation": launched.invocation, "since": launched.started}
    return wanted


def _recorded(run: Redeployment, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return run.do(
        "diagnose",
        verb,
        arguments,
        operation=f"diagnose-{verb}",
        deadline_seconds=POLICIES["diagnose"].deadline_seconds,
    )
