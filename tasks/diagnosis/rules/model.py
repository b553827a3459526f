"""What a rule is made of."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tasks.diagnosis.rules.acts import Act, Argv, DropIn, Install
from tasks.diagnosis.symptoms import Facts, Symptoms

Safety = Literal["auto", "approval", "human"]
Captured = Mapping[str, str]
Match = Callable[[Symptoms], Captured | None]


class Remedy(BaseModel):
    """What cures a failure.

    Attributes:
        rule: the rule that gave it; no remedy comes from elsewhere.
        safety: `auto` may run by itself where the policy allows, `approval` when a person agrees,
            `human` is for a person to do.
        acts: what is done, in order; none where only a person can do it. Nothing in them is a
            log's raw text.
        commands: the same as a person would type it, as argument vectors.
        undo: what to install to take it back.
        check: what must hold afterwards, in words; `still_wrong` looks.
        sentence: what it does, in words.
    """

    model_config = ConfigDict(frozen=True)

    rule: str
    safety: Safety
    acts: tuple[Act, ...] = ()
    commands: tuple[Argv, ...] = ()
    undo: tuple[str, ...] = ()
    check: str
    sentence: str

    @property
    def packages(self) -> tuple[str, ...]:
        """Return what is installed."""
        return tuple(one for act in self.acts if isinstance(act, Install) for one in act.packages)

    @property
    def drop_in(self) -> tuple[str, ...]:
        """Return the lines that are added to the unit's `[Service]` section."""
        return tuple(line for act in self.acts if isinstance(act, DropIn) for line in act.lines)


def commands_of(acts: Sequence[Act], facts: Facts) -> tuple[Argv, ...]:
    """Return acts as a person would type them."""
    return tuple(argv for act in acts for argv in act.commands(facts))


@dataclass(frozen=True)
class Rule:
    """One known failure.

    Attributes:
        name: for the record; never renamed.
        kind: the family it belongs to.
        match: what the symptoms must say; gives the captured words, or None.
        explanation: why it failed; `{words}` are the captured ones.
        advice: what a person should do; the remedy's words where it has none of its own.
        safety: how far its remedy may go by itself.
        guard: what else must hold before the remedy is offered; gives the reason why not, or None.
        acts: what does it; none where a value is not of its type.
        remedy: what cures it, where that depends on more.
        asks: the package of which a remedy has to know whether an index offers it.
        check: what must hold afterwards.
        undo: how it is taken back, in words.
        still_wrong: given the facts after the cure, why it is not cured, or None.
        line: finds the line that is the cause where it is none that fails.
    """

    name: str
    kind: str
    match: Match
    explanation: str
    advice: str
    safety: Safety = "approval"
    guard: Callable[[Symptoms, Captured], str | None] | None = None
    acts: Callable[[Symptoms, Captured], tuple[Act, ...]] | None = None
    remedy: Callable[[Symptoms, Captured], Remedy | None] | None = None
    asks: Callable[[Captured], str | None] | None = None
    check: str = "The service starts and serves."
    undo: str = "Nothing was changed."
    still_wrong: Callable[[Facts], str | None] | None = None
    line: re.Pattern[str] | None = None

    def cure(self, symptoms: Symptoms, captured: Captured) -> Remedy | None:
        """Return what cures it here."""
        if self.remedy:
            return self.remedy(symptoms, captured)
        acts = self.acts(symptoms, captured) if self.acts else ()
        return Remedy(
            rule=self.name,
            safety=self.safety,
            acts=acts,
            commands=commands_of(acts, symptoms.facts),
            check=self.check,
            sentence=self.advice,
        )


def always(*acts: Act) -> Callable[[Symptoms, Captured], tuple[Act, ...]]:
    """Return what gives the same acts whatever the log says."""
    return lambda _, __: acts


def says(pattern: str, *, where: str | None = None, chain: bool = True) -> Match:
    """Match the root cause's own text, then what it led to; named groups are captured.

    Args:
        pattern: what it says.
        where: what the files of its innermost calls must match.
        chain: whether to look at the rest of its chain as well.
    """
    compiled = re.compile(pattern)
    files = re.compile(where) if where else None

    def match(symptoms: Symptoms) -> Captured | None:
        cause = symptoms.root_cause
        if cause is None or not cause.is_known:
            return None
        if files and not any(files.search(frame.file) for frame in cause.frames[-4:]):
            return None
        for text in (cause.text, *(cause.raised_from if chain else ())):
            if found := compiled.search(text[:4000]):
                return {name: said or "" for name, said in found.groupdict().items()}
        return None

    return match


def by(process: str, pattern: str) -> Match:
    """Match what one certain speaker says: `kernel`, `systemd`, `uv`."""
    compiled = re.compile(pattern)

    def match(symptoms: Symptoms) -> Captured | None:
        cause = symptoms.root_cause
        if cause is None or cause.process != process:
            return None
        found = compiled.search(cause.text[:4000])
        return {n: said or "" for n, said in found.groupdict().items()} if found else None

    return match


def holds(condition: Callable[[Symptoms], bool]) -> Match:
    """Match where a condition holds; nothing is captured."""
    return lambda symptoms: {} if condition(symptoms) else None


def either(*matches: Match) -> Match:
    """Match where one of several does; the first one captures."""

    def match(symptoms: Symptoms) -> Captured | None:
        found = (one(symptoms) for one in matches)
        return next((captured for captured in found if captured is not None), None)

    return match


def both(first: Match, second: Match) -> Match:
    """Match where two do; the captured words of both."""

    def match(symptoms: Symptoms) -> Captured | None:
        one, other = first(symptoms), second(symptoms)
        return None if one is None or other is None else {**other, **one}

    return match


def somewhere(pattern: str) -> Match:
    """Match a line anywhere in the journal."""
    compiled = re.compile(pattern)

    def match(symptoms: Symptoms) -> Captured | None:
        for entry in symptoms.entries:
            if found := compiled.search(entry.message[:2000]):
                return {name: said or "" for name, said in found.groupdict().items()}
        return None

    return match


def left_overs_of(facts: Facts) -> str | None:
    """Say which processes an earlier start has left over, or None."""
    if not facts.left_overs:
        return None
    return f"left over in the unit's control group: {', '.join(facts.left_overs)}"
