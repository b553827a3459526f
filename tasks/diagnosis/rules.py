"""The failures that are known by name, and what cures them. A new one is added to RULES, here."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict

from tasks.diagnosis.symptoms import Facts, Symptoms
from tasks.packages.families import CUBIN, FLASHINFER, cure

Safety = Literal["auto", "approval", "human"]
Captured = Mapping[str, str]
Match = Callable[[Symptoms], Captured | None]


class Remedy(BaseModel):
    """What cures a failure.

    Attributes:
        rule: the rule that gave it; no remedy comes from elsewhere.
        safety: `auto` may run by itself where the policy allows, `approval` when a person agrees,
            `human` is for a person to do.
        packages: what to install, `name==version`.
        undo: what to install to take it back.
        check: what must hold afterwards, in words; `still_wrong` looks.
        sentence: what it does, in words.
    """

    model_config = ConfigDict(frozen=True)

    rule: str
    safety: Safety
    packages: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    check: str
    sentence: str


@dataclass(frozen=True)
class Rule:
    """One known failure.

    Attributes:
        name: for the record; never renamed.
        kind: the family it belongs to.
        match: what the symptoms must say; gives the captured words, or None.
        explanation: why it failed; `{words}` are the captured ones.
        advice: what a person should do.
        guard: what else must hold before the remedy is offered; gives the reason why not, or None.
        remedy: what cures it; None where nothing may run by itself.
        still_wrong: given the facts after the cure, why it is not cured, or None.
    """

    name: str
    kind: str
    match: Match
    explanation: str
    advice: str
    guard: Callable[[Symptoms, Captured], str | None] | None = None
    remedy: Callable[[Facts], Remedy | None] | None = None
    still_wrong: Callable[[Facts], str | None] | None = None


def says(pattern: str) -> Match:
    """Match the root cause's own text; named groups are captured."""
    compiled = re.compile(pattern)

    def match(symptoms: Symptoms) -> Captured | None:
        found = compiled.search(symptoms.root_cause.text) if symptoms.root_cause else None
        if not found:
            return None
        return {name: text or "" for name, text in found.groupdict().items()}

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


def _cubin_as_installed(symptoms: Symptoms, captured: Captured) -> str | None:
    """Ask the environment whether the journal speaks of it, not of an earlier one."""
    pairs = ((CUBIN, captured["cubin"]), (FLASHINFER, captured["flashinfer"]))
    for name, said in pairs:
        installed = symptoms.facts.version(name)
        if installed is None:
            return f"{name} is not installed in this environment"
        if not _same_public(installed, said):
            return f"the journal speaks of {name} {said}, but {installed} is installed"
    if _skewed_cubin(symptoms.facts) is None:
        return "the installed versions go together"
    return None


def _install_cubin(facts: Facts) -> Remedy | None:
    skew = next((one for one in facts.skews() if one.package == CUBIN), None)
    wanted = cure(skew) if skew else None
    if not skew or not wanted:
        return None
    return Remedy(
        rule="flashinfer-cubin-skew",
        safety="auto",
        packages=(wanted,),
        undo=(f"{CUBIN}=={skew.installed}",),
        check=f"{CUBIN} and {FLASHINFER} have the same version.",
        sentence=f"Install {wanted}; {FLASHINFER} stays, since vLLM asks for exactly this one.",
    )


def _skewed_cubin(facts: Facts) -> str | None:
    return next((one.sentence for one in facts.skews() if one.package == CUBIN), None)


def _same_public(one: str, other: str) -> bool:
    try:
        return Version(one).public == Version(other).public
    except InvalidVersion:
        return one == other


RULES = (
    Rule(
        name="flashinfer-cubin-skew",
        kind="version-skew",
        match=says(
            r"flashinfer-cubin version \((?P<cubin>[^()\s]+)\) does not match "
            r"flashinfer version \((?P<flashinfer>[^()\s]+)\)"
        ),
        guard=_cubin_as_installed,
        explanation="flashinfer-cubin {cubin} was left behind beside flashinfer-python "
        "{flashinfer}: nothing in vLLM's requirements moves it, and flashinfer compares the two "
        "when it is imported.",
        remedy=_install_cubin,
        still_wrong=_skewed_cubin,
        advice="Install flashinfer-cubin at the version of flashinfer-python, from an index that "
        "has it. Newer ones are only on FlashInfer's own index.",
    ),
    Rule(
        name="port-in-use",
        kind="port",
        match=either(
            says(r"\[Errno 98\]|[Aa]ddress already in use"),
            holds(lambda symptoms: symptoms.death.kind == "port-taken"),
        ),
        explanation="Another process listens on the service's port.",
        advice="Find it with `ss -ltnp` on the host: a left-over of this service, or somebody "
        "else's. Stop it, or give this service another port.",
    ),
    Rule(
        name="gpu-out-of-memory",
        kind="gpu-memory",
        match=says(
            r"CUDA out of memory|\bOutOfMemoryError\b|larger than the available KV cache memory|"
            r"No available memory for the cache blocks"
        ),
        explanation="The model, its KV cache or the warm-up does not fit into the GPUs' memory as "
        "this version uses it.",
        advice="Look at who else holds the GPUs, then at --gpu-memory-utilization, --max-model-len "
        "and --max-num-seqs. Flags are never changed by themselves.",
    ),
    Rule(
        name="host-out-of-memory",
        kind="host-memory",
        match=either(
            says(r"Out of memory: Killed process"),
            holds(lambda symptoms: symptoms.death.result == "oom-kill"),
        ),
        explanation="The kernel killed the service because the host ran out of memory.",
        advice="Look at `journalctl -k` for who used it, and at MemoryMax= of the unit.",
    ),
    Rule(
        name="killed",
        kind="runtime-crash",
        match=holds(lambda symptoms: symptoms.death.was_killed and symptoms.root_cause is None),
        explanation="Somebody sent SIGKILL to the service; it could not say a word. The journal "
        "does not hold who it was.",
        advice="Look at `journalctl -k` for the kernel's memory killer, and for who else is at "
        "work on the host.",
    ),
    Rule(
        name="hung",
        kind="hang",
        match=holds(lambda symptoms: symptoms.death.kind in ("hung", "stalled")),
        explanation="The start did not come to an end before its deadline, or stood still.",
        advice="Look at the stage it stands at, at the last lines, and at what its processes do. "
        "A slow disk or a cold compile needs a longer limit.",
    ),
    Rule(
        name="exit-without-a-word",
        kind="runtime-crash",
        match=holds(
            lambda symptoms: symptoms.death.kind == "exited" and symptoms.root_cause is None
        ),
        explanation="The service ended with status 0 and without a word of why. For systemd that "
        "is a success; for a service that should run it is a failure.",
        advice="Look for who stopped it. With Restart=always in the unit systemd starts it again.",
    ),
)
"""Every known failure, the most telling first: the first that matches is the finding."""


def still_wrong(remedy: Remedy, facts: Facts) -> str | None:
    """Say why a remedy has not cured anything, from the facts after it; None: it has."""
    rule = next((rule for rule in RULES if rule.name == remedy.rule), None)
    if rule is None:
        return f"No rule is named {remedy.rule}."
    return rule.still_wrong(facts) if rule.still_wrong else None
