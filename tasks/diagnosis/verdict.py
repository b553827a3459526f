"""A finding as the document that other programs read (docs/diagnosis.md). It is stable."""

from typing import Any

from tasks.diagnosis.finding import Finding


def document(finding: Finding) -> dict[str, Any]:
    """Return `{"healthy", "findings"}`; the first finding is the verdict."""
    return {"healthy": finding.healthy, "findings": [] if finding.healthy else [_one(finding)]}


def is_established(finding: Finding) -> bool:
    """Whether it says what failed, or that nothing did."""
    return finding.healthy or finding.confidence != "unknown"


def _one(finding: Finding) -> dict[str, Any]:
    cause, remedy = finding.root_cause, finding.remedy
    return {
        "rule": finding.rule,
        "kind": finding.kind,
        "process": cause.process if cause else "vllm",
        "root_cause": finding.said,
        "line": cause.number if cause else None,
        "count": cause.times_seen if cause else 0,
        "cause": f"{finding.explanation} {finding.advice}",
        "remedy": None
        if remedy is None
        else {
            "safety": remedy.safety,
            "commands": [list(argv) for argv in remedy.commands],
            "text": " ".join([remedy.sentence, *(f"[Service] {one}" for one in remedy.drop_in)]),
        },
    }
