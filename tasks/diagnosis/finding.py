"""From a journal to a finding: what failed, why, what cures it, or that nobody can tell."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tasks.diagnosis.journal import Entry
from tasks.diagnosis.rootcause import RootCause, root_cause
from tasks.diagnosis.rules import RULES, Captured, Remedy, Rule
from tasks.diagnosis.symptoms import Death, Facts, Symptoms

Confidence = Literal["certain", "likely", "unknown"]
_MOST_EVIDENCE = 8
_LAST_LINES = 10
_LONGEST = 500


class Evidence(BaseModel):
    """One line of the journal; hostile text, shown and never acted upon."""

    model_config = ConfigDict(frozen=True)

    number: int
    text: str


class Finding(BaseModel):
    """What diagnosis concluded.

    Attributes:
        rule: the known failure it is; None for one that has no name yet.
        kind: the family it belongs to; `unknown` without a rule.
        root_cause: the failure that came first, if the journal holds it.
        where: the process and the place in the code.
        confidence: `certain` a rule matched and its guard agrees with the host, `likely` the
            journal says it, `unknown` the journal does not hold it.
        explanation: why it failed.
        evidence: the lines that say so, or the last ones.
        remedy: what cures it, if a rule knows.
        advice: what a person should do.
        looked_at: what was read.
    """

    model_config = ConfigDict(frozen=True)

    rule: str | None
    kind: str
    root_cause: RootCause | None
    where: str
    confidence: Confidence
    explanation: str
    evidence: tuple[Evidence, ...]
    remedy: Remedy | None
    advice: str
    looked_at: tuple[str, ...]

    @property
    def headline(self) -> str:
        """Return one line for a list or a run's state."""
        said = self.root_cause.text.splitlines()[0] if self.root_cause else self.explanation
        return f"{self.rule or self.kind}: {_short(said, 200)}"


def diagnose(entries: Sequence[Entry], facts: Facts, death: Death) -> Finding:
    """Conclude from the journal of a start that failed.

    Args:
        entries: the journal, oldest first; see `tasks.diagnosis.journal`.
        facts: what is installed; a remedy is only given where it agrees with the journal.
        death: how the service died.

    Returns:
        A finding, always: what is unknown is called unknown.
    """
    cause = root_cause(entries)
    symptoms = Symptoms(entries, cause, facts, death)
    for rule in RULES:
        captured = rule.match(symptoms)
        if captured is not None:
            return _by_rule(rule, captured, symptoms)
    return _without_rule(symptoms)


def _by_rule(rule: Rule, captured: Captured, symptoms: Symptoms) -> Finding:
    objection = rule.guard(symptoms, captured) if rule.guard else None
    remedy = rule.remedy(symptoms.facts) if rule.remedy and not objection else None
    explanation = rule.explanation.format(**captured)
    if objection:
        explanation += f" But {objection}: nothing is done about it."
    confidence: Confidence = "certain" if rule.guard and not objection else "likely"
    return _finding(symptoms, rule.name, rule.kind, confidence, explanation, remedy, rule.advice)


def _without_rule(symptoms: Symptoms) -> Finding:
    died = symptoms.death.sentence
    if symptoms.root_cause is None and symptoms.death.kind == "running":
        explanation = f"Nothing to cure: {died}, and no line of its journal names a failure."
        advice = "Nothing; `redeploy status` says how it serves."
        return _finding(symptoms, None, "unknown", "likely", explanation, None, advice)
    if symptoms.root_cause is None:
        explanation = f"The journal does not hold the cause: {died}, and no line names a failure."
        advice = "Read the last lines, then `journalctl -k` and `systemctl status` on the host."
        return _finding(symptoms, None, "unknown", "unknown", explanation, None, advice)
    explanation = f"No rule knows this failure yet: {died}. The first thing that failed is shown."
    advice = "Read the root cause. If it is a known failure, add a rule and its case."
    return _finding(symptoms, None, "unknown", "likely", explanation, None, advice)


def _finding(
    symptoms: Symptoms,
    rule: str | None,
    kind: str,
    confidence: Confidence,
    explanation: str,
    remedy: Remedy | None,
    advice: str,
) -> Finding:
    return Finding(
        rule=rule,
        kind=kind,
        root_cause=symptoms.root_cause,
        where=_where(symptoms.root_cause),
        confidence=confidence,
        explanation=explanation,
        evidence=_evidence(symptoms),
        remedy=remedy,
        advice=advice,
        looked_at=_looked_at(symptoms),
    )


def _where(cause: RootCause | None) -> str:
    if cause is None:
        return "unknown"
    others = max(0, len(cause.pids) - 1)
    who = cause.process + (f" (pid {cause.pid})" if cause.pid else "")
    who += f" and {others} more" if others else ""
    if not cause.frames:
        return who
    frame = cause.frames[-1]
    file = frame.file.rpartition("/site-packages/")[2]
    return f"{who}, {_short(file, 200)}:{frame.line} in {_short(frame.function, 100)}"


def _evidence(symptoms: Symptoms) -> tuple[Evidence, ...]:
    spoken = [entry for entry in symptoms.entries if entry.message.strip()]
    cause = symptoms.root_cause
    if cause is None:
        chosen = spoken[-_LAST_LINES:]
    else:
        numbers = set(cause.line_numbers)
        chosen = [entry for entry in spoken if entry.number in numbers][:_MOST_EVIDENCE]
    return tuple(
        Evidence(number=entry.number, text=_short(entry.message, _LONGEST)) for entry in chosen
    )


def _looked_at(symptoms: Symptoms) -> tuple[str, ...]:
    entries = symptoms.entries
    times = [entry.time for entry in entries if entry.time is not None]
    when = f" from {_clock(min(times))} to {_clock(max(times))}" if times else ""
    return (
        f"{_count(len(entries), 'line')} of the journal{when}",
        f"the unit: {symptoms.death.sentence}",
        _count(len(symptoms.facts.packages), "installed package"),
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
