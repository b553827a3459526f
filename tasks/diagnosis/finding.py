"""From a journal to a finding: what failed, why, what cures it, or that nobody can tell."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tasks.diagnosis.journal import Entry
from tasks.diagnosis.kinds import guess
from tasks.diagnosis.rootcause import RootCause, root_cause
from tasks.diagnosis.rules import RULES, Captured, Remedy, Rule
from tasks.diagnosis.statements import Weight
from tasks.diagnosis.symptoms import Death, Facts, Symptoms

Confidence = Literal["certain", "likely", "unknown"]
_MOST_EVIDENCE = 8
_LAST_LINES = 10
_LONGEST = 2000
_HARMLESS_WHERE_IT_RUNS = frozenset(
    {Weight.SAID, Weight.ECHO, Weight.DIED, Weight.STANDS, Weight.STOPPED}
)


_SEEN_ON_THE_HOST = ("port-taken", "gpus-busy")
"""Ends of a start whose cause was seen on the host itself: what the journal says is another one."""


class Evidence(BaseModel):
    """One line of the journal; hostile text, shown and never acted upon."""

    model_config = ConfigDict(frozen=True)

    number: int
    text: str


class Finding(BaseModel):
    """What diagnosis concluded.

    Attributes:
        healthy: it serves, and nothing failed.
        rule: the known failure it is; None for one that has no name yet.
        kind: the family it belongs to; without a rule a guess, or `unknown`.
        root_cause: the failure that came first, if the journal holds it.
        said: the line that says it, as the program wrote it.
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

    healthy: bool = False
    rule: str | None
    kind: str
    root_cause: RootCause | None
    said: str = ""
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


def diagnose(
    entries: Sequence[Entry],
    facts: Facts,
    death: Death,
    rules: Sequence[Rule] = RULES,
    *,
    lines_read: int | None = None,
) -> Finding:
    """Conclude from the journal of a start that failed.

    Args:
        entries: the journal, oldest first; see `tasks.diagnosis.journal`.
        facts: what is installed; a remedy is only given where it agrees with the journal.
        death: how the service died.
        rules: the failures that are known by name.
        lines_read: how many lines there were, where `entries` are only those that matter.

    Returns:
        A finding, always: what is unknown is called unknown.
    """
    rule, captured, symptoms = _matched(entries, facts, death, rules, lines_read)
    if rule is None:
        return _without_rule(symptoms)
    return _by_rule(rule, captured, _at_its_line(rule, symptoms))


def _matched(
    entries: Sequence[Entry],
    facts: Facts,
    death: Death,
    rules: Sequence[Rule],
    lines_read: int | None,
) -> tuple[Rule | None, Captured, Symptoms]:
    """Find the root cause, and the first rule that knows it."""
    cause = root_cause(entries, has_died=death.kind not in ("running", "not-asked"))
    if death.kind in _SEEN_ON_THE_HOST:
        cause = None
    if cause is not None and death.kind == "running" and cause.weight in _HARMLESS_WHERE_IT_RUNS:
        cause = None
    symptoms = Symptoms(entries, cause, facts, death, lines_read)
    for rule in rules:
        captured = rule.match(symptoms)
        if captured is not None:
            return rule, captured, symptoms
    return None, {}, symptoms


def package_asked_for(
    entries: Sequence[Entry], facts: Facts, death: Death, rules: Sequence[Rule] = RULES
) -> str | None:
    """Return the exact package of which the verdict's remedy has to know who offers it, or None.

    Args:
        entries: the journal, oldest first.
        facts: what is installed.
        death: how the service died.
        rules: the failures that are known by name.
    """
    rule, captured, symptoms = _matched(entries, facts, death, rules, None)
    if rule is None or rule.asks is None or (rule.guard and rule.guard(symptoms, captured)):
        return None
    return rule.asks(captured)


def _at_its_line(rule: Rule, symptoms: Symptoms) -> Symptoms:
    """Give the cause that only this rule takes for one."""
    if rule.line is None or symptoms.names_a_cause:
        return symptoms
    for entry in symptoms.entries:
        if rule.line.search(entry.message[:2000]):
            numbers = (entry.number,)
            found = RootCause("uv", entry.pid, None, entry.message, line_numbers=numbers)
            return replace(symptoms, root_cause=replace(found, number=entry.number))
    return symptoms


def _by_rule(rule: Rule, captured: Captured, symptoms: Symptoms) -> Finding:
    objection = rule.guard(symptoms, captured) if rule.guard else None
    remedy = None if objection else rule.cure(symptoms, captured)
    explanation = rule.explanation.format(**captured)
    if objection:
        explanation += f" But {objection}: nothing is done about it."
    agrees = rule.guard and not objection and symptoms.facts.are_known
    confidence: Confidence = "certain" if agrees else "likely"
    return _finding(symptoms, rule.name, rule.kind, confidence, explanation, remedy, rule.advice)


def _without_rule(symptoms: Symptoms) -> Finding:
    died, cause = symptoms.death.sentence, symptoms.root_cause
    kind = guess(cause)
    if cause is None and symptoms.death.kind == "running":
        explanation = f"Nothing to cure: {died}, and no line of its journal names a failure."
        advice = "Nothing; `redeploy status` says how it serves."
        return _finding(symptoms, None, kind, "likely", explanation, None, advice, healthy=True)
    if cause is None and symptoms.death.kind == "not-asked" and symptoms.served:
        explanation = "Nothing to cure: it came to serving, and no line names a failure."
        return _finding(symptoms, None, kind, "likely", explanation, None, "Nothing.", healthy=True)
    if cause is None or not cause.is_known:
        told = _OF_NO_CAUSE if cause is None else _OF_AN_END
        explanation = f"The journal does not hold the cause: {died}, and {told}."
        advice = "Read the last lines, then `journalctl -k` and `systemctl status` on the host."
        return _finding(symptoms, None, kind, "unknown", explanation, None, advice)
    explanation = f"No rule knows this failure yet: {died}. The first thing that failed is shown."
    advice = "Read the root cause. If it is a known failure, add a rule and its case."
    return _finding(symptoms, None, kind, "likely", explanation, None, advice)


_OF_NO_CAUSE = "no line names a failure"
_OF_AN_END = "its lines only say that it ended or stands, not why"


def _finding(
    symptoms: Symptoms,
    rule: str | None,
    kind: str,
    confidence: Confidence,
    explanation: str,
    remedy: Remedy | None,
    advice: str,
    *,
    healthy: bool = False,
) -> Finding:
    return Finding(
        healthy=healthy,
        rule=rule,
        kind=kind,
        root_cause=symptoms.root_cause,
        said=_own_line(symptoms),
        where=_where(symptoms.root_cause),
        confidence=confidence,
        explanation=explanation,
        evidence=_evidence(symptoms),
        remedy=remedy,
        advice=advice,
        looked_at=_looked_at(symptoms),
    )


def _own_line(symptoms: Symptoms) -> str:
    """Return the telling line as the program wrote it; of a message of several lines, that one."""
    cause = symptoms.root_cause
    if cause is None:
        return ""
    text = cause.text.split("\n")[0].strip()
    own = [entry.message for entry in symptoms.entries if entry.number == cause.number]
    return _short(next((line for line in own if text in line), own[0] if own else text), _LONGEST)


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
        f"{_count(symptoms.lines_read or len(entries), 'line')} of the journal{when}",
        f"the unit: {symptoms.death.sentence}",
        _count(len(symptoms.facts.packages), "installed package"),
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
