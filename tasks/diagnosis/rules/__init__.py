"""The failures that are known by name, and what cures them.

One entry in one of these modules is one known failure; `RULES` is the order of asking.
"""

from tasks.diagnosis.rules import asked, flashinfer, gpu, host, packages
from tasks.diagnosis.rules.model import Captured, Remedy, Rule, Safety
from tasks.diagnosis.symptoms import Facts

__all__ = ["RULES", "Captured", "Remedy", "Rule", "Safety", "still_wrong"]

RULES: tuple[Rule, ...] = (
    *flashinfer.RULES,
    *gpu.RULES,
    *host.RULES,
    *packages.RULES,
    *asked.RULES,
    *asked.LAST,
)
"""Every known failure, the most telling first: the first that matches is the finding."""


def still_wrong(remedy: Remedy, facts: Facts) -> str | None:
    """Say why a remedy has not cured anything, from the facts after it; None: it has."""
    rule = next((rule for rule in RULES if rule.name == remedy.rule), None)
    if rule is None:
        return f"No rule is named {remedy.rule}."
    return rule.still_wrong(facts) if rule.still_wrong else None
