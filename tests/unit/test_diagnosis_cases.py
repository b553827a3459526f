"""Every case: a log, and beside it what failed in it. Adding a case means adding the two files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.diagnosis.finding import Finding, diagnose
from tasks.diagnosis.journal import read
from tasks.diagnosis.symptoms import Death, Facts

CASES = Path(__file__).parent.parent / "cases" / "diagnosis"
LOGS = sorted(CASES.glob("*/*.log"))
NOT_YET = {
    line.split()[0]
    for line in (CASES / "not-yet.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
}
NAMED_OTHERWISE = {("hang", "nccl-dist")}


def name(log: Path) -> str:
    return f"{log.parent.name}/{log.stem}"


def finding(log: Path, case: dict[str, Any]) -> Finding:
    death = Death(kind="hung" if case["id"].endswith("-hang") else "crashed")
    return diagnose(read(log.read_bytes().decode()), Facts(), death)


def is_found(found: Finding, case: dict[str, Any]) -> bool:
    cause = found.root_cause
    if case["kind"] is None:
        return cause is None
    if cause is None:
        return False
    if "root_cause_at" in case:
        return not set(case["root_cause_at"]).isdisjoint(cause.line_numbers)
    return all(text in cause.text for text in case["root_cause_contains"])


@pytest.mark.parametrize("log", LOGS, ids=name)
def test_the_root_cause_is_found(log: Path) -> None:
    case = json.loads(log.with_suffix(".json").read_text())

    assert is_found(finding(log, case), case) is (name(log) not in NOT_YET)


@pytest.mark.parametrize("log", LOGS, ids=name)
def test_a_rule_says_no_other_kind_than_the_case(log: Path) -> None:
    case = json.loads(log.with_suffix(".json").read_text())
    found = finding(log, case)

    if found.rule:
        assert found.kind == case["kind"] or (found.kind, case["kind"]) in NAMED_OTHERWISE


@pytest.mark.parametrize("log", LOGS, ids=name)
def test_the_process_is_right_where_it_is_named(log: Path) -> None:
    case = json.loads(log.with_suffix(".json").read_text())
    cause = finding(log, case).root_cause

    if cause and case["process"] and cause.process != "vllm":
        assert cause.process == case["process"]


def test_the_list_names_cases_only() -> None:
    assert {name(log) for log in LOGS} >= NOT_YET
    assert len(LOGS) >= 42
