"""A finding as the document that other programs read (docs/diagnosis.md). It is stable."""

from typing import Any

from tasks.diagnosis.finding import Finding

_LONGEST = 600


def document(finding: Finding) -> dict[str, Any]:
    """Return `{"healthy", "findings"}`; the first finding is the verdict."""
    return {"healthy": finding.healthy, "findings": [] if finding.healthy else [_one(finding)]}


def in_words(finding: Finding) -> list[str]:
    """Return a few lines for a person: what failed, where, how sure, what to do."""
    if finding.healthy:
        return [finding.explanation]
    cause, remedy = finding.root_cause, finding.remedy
    line = f" (line {cause.number})" if cause else ""
    rows = {
        "root cause": (finding.said.strip() or "not in the journal") + line,
        "where": finding.where,
        "kind": finding.kind + (f", {finding.rule}" if finding.rule else ""),
        "how sure": finding.confidence,
        "remedy": f"{remedy.sentence} ({remedy.safety})" if remedy else finding.advice,
        "looked at": "; ".join(finding.looked_at),
    }
    if remedy and remedy.drop_in:
        rows["drop-in"] = "; ".join(remedy.drop_in)
    if cause and cause.consequences:
        rows["it led to"] = f"{len(cause.consequences)} more, the last: {cause.consequences[-1]}"
    told = [f"{what + ':':12}{' '.join(said.split())[:_LONGEST]}" for what, said in rows.items()]
    return [finding.explanation, *told]


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
