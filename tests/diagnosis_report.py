"""`make diagnosis-report`: how well failures are found, by kind; and that it does not get worse.

Every journal of every case is diagnosed as a file: nothing is known of the host.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.diagnosis.finding import Finding, diagnose
from tasks.diagnosis.journal import read
from tasks.diagnosis.rules import RULES, Rule
from tasks.diagnosis.symptoms import Death, Facts
from tests.diagnosis_cases import CASES, Journal, journals

FIGURES = CASES / "figures.json"
GOALS = {"root_without_rules": 0.90, "root": 0.98, "kind": 0.95, "safety": 0.90}
_DARING = {None: 0, "human": 0, "approval": 1, "auto": 2}


@dataclass(frozen=True)
class Judged:
    """What came of one journal; None: the case does not say what is right."""

    journal: Journal
    finding: Finding
    root_without_rules: bool
    root: bool
    kind: bool
    kind_left_out: bool
    safety: bool | None
    too_daring: bool


def judged(journal: Journal) -> Judged:
    """Diagnose a journal with all rules, with none, and without the rule that knows it."""
    finding = _diagnosed(journal, RULES)
    others = [rule for rule in RULES if rule.name != finding.rule]
    expected = journal.expected["kind"]
    said = finding.remedy.safety if finding.remedy else None
    safety = journal.expected.get("safety")
    return Judged(
        journal,
        finding,
        root_without_rules=_is_root(journal, _diagnosed(journal, ())),
        root=_is_root(journal, finding),
        kind=finding.kind == expected,
        kind_left_out=_diagnosed(journal, others).kind == expected,
        safety=None if safety is None else said == safety,
        too_daring=safety is not None and _DARING[said] > _DARING[safety],
    )


def _diagnosed(journal: Journal, rules: Sequence[Rule]) -> Finding:
    return diagnose(read(journal.text), Facts(), Death(kind="not-asked"), rules)


def _is_root(journal: Journal, finding: Finding) -> bool:
    if journal.expected["kind"] is None:
        return finding.healthy
    return finding.root_cause is not None and finding.root_cause.number in journal.roots


def all_judged() -> list[Judged]:
    """Judge every journal there is."""
    return [judged(journal) for journal in journals()]


def figures(of: Iterable[Judged]) -> dict[str, float]:
    """Return the share that is right of each; a case counts once, however often it was built."""
    rows = list(of)
    failed = [one for one in rows if one.journal.expected["kind"] is not None]
    return {
        "root_without_rules": _share(failed, "root_without_rules"),
        "root": _share(failed, "root"),
        "kind": _share(failed, "kind"),
        "kind_left_out": _share(failed, "kind_left_out"),
        "safety": _share([one for one in failed if one.safety is not None], "safety"),
        "too_daring": float(sum(one.too_daring for one in rows)),
        "healthy": _share([one for one in rows if one not in failed], "root"),
    }


def _share(rows: Sequence[Judged], name: str) -> float:
    by_case: dict[str, list[bool]] = defaultdict(list)
    for one in rows:
        by_case[one.journal.case].append(bool(getattr(one, name)))
    shares = [sum(right) / len(right) for right in by_case.values()]
    return round(sum(shares) / len(shares), 4) if shares else 1.0


def main() -> None:
    """Print the figures by kind and what is wrong; `--keep` keeps them as the new measure."""
    rows = all_judged()
    kinds = sorted({str(one.journal.expected["kind"]) for one in rows} - {"None"})
    heads = ("root_without_rules", "root", "kind", "kind_left_out", "safety")
    print(f"{'kind':18}{'cases':>6}" + "".join(f"{head.replace('_', ' '):>20}" for head in heads))
    for kind in kinds:
        _print_row(kind, [one for one in rows if one.journal.expected["kind"] == kind], heads)
    total = figures(rows)
    _print_row("all", [one for one in rows if one.journal.expected["kind"]], heads)
    print(f"healthy starts without a finding: {total['healthy']:.1%}")
    print(f"remedies more daring than the case: {total['too_daring']:.0f}")
    _print_wrong(rows)
    if "--keep" in sys.argv:
        FIGURES.write_text(json.dumps(total, indent=1) + "\n")


def _print_row(name: str, rows: Sequence[Judged], heads: Sequence[str]) -> None:
    shares = figures(rows)
    cases = len({one.journal.case for one in rows})
    print(f"{name:18}{cases:>6}" + "".join(f"{shares[head]:>20.1%}" for head in heads))


def _print_wrong(rows: Iterable[Judged]) -> None:
    for one in rows:
        healthy = one.journal.expected["kind"] is None
        wrong = [
            name
            for name in ("root_without_rules", "root", "kind", "kind_left_out", "safety")
            if getattr(one, name) is False and not (healthy and name != "root")
        ]
        if wrong or one.too_daring:
            found = one.finding
            print(
                f"{one.journal.name}: {', '.join(wrong)}{' TOO DARING' * one.too_daring}: "
                f"{found.rule or found.kind}, line {found.root_cause and found.root_cause.number}: "
                f"{found.said[:110]}"
            )


if __name__ == "__main__":
    main()
