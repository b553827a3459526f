"""From symptoms to a finding and its remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.diagnosis.finding import Finding, diagnose
from tasks.diagnosis.journal import from_short_iso, from_supervisor, read
from tasks.diagnosis.rules import RULES, still_wrong
from tasks.diagnosis.symptoms import Death, DeathKind, Facts
from tasks.packages.families import Installed

CASES = Path(__file__).parent.parent / "cases" / "diagnosis"
CUBIN_LOG = (CASES / "reported" / "flashinfer-cubin-skew.log").read_text()
CRASHED = Death(kind="crashed", unit={"result": "exit-code", "exec_main_status": 1})


def installed(cubin: str | None, python: str = "0.6.4") -> Facts:
    packages = [Installed("flashinfer-python", python)]
    if cubin:
        packages.append(Installed("flashinfer-cubin", cubin))
    return Facts(packages=tuple(packages))


def test_the_skew_this_was_built_for() -> None:
    finding = diagnose(from_short_iso(CUBIN_LOG), installed("0.6.3"), CRASHED)

    assert (finding.rule, finding.kind, finding.confidence) == (
        "flashinfer-cubin-skew",
        "version-skew",
        "certain",
    )
    assert finding.where == ("EngineCore (pid 40377), flashinfer/jit/env.py:97 in _get_cubin_dir")
    assert [line.number for line in finding.evidence] == [44, 48]
    assert finding.root_cause is not None
    assert any("Engine core initialization" in one for one in finding.root_cause.consequences)
    assert finding.remedy is not None
    assert finding.remedy.safety == "auto"
    assert finding.remedy.packages == ("flashinfer-cubin==0.6.4",)
    assert finding.remedy.undo == ("flashinfer-cubin==0.6.3",)


def test_other_numbers_in_either_direction() -> None:
    text = CUBIN_LOG.replace("0.6.3", "0.6.18").replace("0.6.4", "0.6.16.post3")

    finding = diagnose(from_short_iso(text), installed("0.6.18", "0.6.16.post3+cu130"), CRASHED)

    assert finding.remedy is not None
    assert finding.remedy.packages == ("flashinfer-cubin==0.6.16.post3",)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (installed(None), "flashinfer-cubin is not installed"),
        (installed("0.6.2"), "speaks of flashinfer-cubin 0.6.3, but 0.6.2 is installed"),
        (installed("0.6.3", "0.6.5"), "speaks of flashinfer-python 0.6.4, but 0.6.5"),
    ],
)
def test_no_remedy_where_the_host_contradicts_the_journal(facts: Facts, why: str) -> None:
    finding = diagnose(from_short_iso(CUBIN_LOG), facts, CRASHED)

    assert finding.rule == "flashinfer-cubin-skew"
    assert finding.remedy is None
    assert finding.confidence == "likely"
    assert why in finding.explanation


def test_the_cure_is_checked() -> None:
    remedy = diagnose(from_short_iso(CUBIN_LOG), installed("0.6.3"), CRASHED).remedy

    assert remedy is not None
    assert still_wrong(remedy, installed("0.6.4")) is None
    assert "0.6.3 is installed" in (still_wrong(remedy, installed("0.6.3")) or "")


def raising(exception: str) -> str:
    return f'Traceback (most recent call last):\n  File "/v/a.py", line 1, in a\n{exception}'


@pytest.mark.parametrize(
    ("text", "death", "rule"),
    [
        (raising("OSError: [Errno 98] Address already in use"), CRASHED, "port-in-use"),
        (
            raising("torch.OutOfMemoryError: CUDA out of memory. Tried"),
            CRASHED,
            "gpu-out-of-memory",
        ),
        ("", Death(kind="crashed", unit={"result": "oom-kill"}), "host-out-of-memory"),
        (
            "",
            Death(
                kind="crashed",
                unit={"result": "signal", "exec_main_code": 2, "exec_main_status": 9},
            ),
            "killed",
        ),
        (
            "",
            Death(kind="crashed", unit={"exec_main_code": "killed", "exec_main_status": "9"}),
            "killed",
        ),
        ("INFO: loading", Death(kind="hung", last_stage="loading weights"), "hung"),
        ("INFO:     Shutting down", Death(kind="exited"), "exit-without-a-word"),
    ],
)
def test_named_findings_that_nothing_cures_by_itself(text: str, death: Death, rule: str) -> None:
    finding = diagnose(read(text), Facts(), death)

    assert finding.rule == rule
    assert finding.remedy is not None
    assert finding.remedy.safety != "auto"
    assert finding.remedy.commands == ()
    assert finding.advice


def test_the_kernels_memory_killer_in_the_journal() -> None:
    entries = from_supervisor(
        [{"identifier": "kernel", "message": "Out of memory: Killed process 7 (VLLM::Worker)"}]
    )

    assert diagnose(entries, Facts(), CRASHED).rule == "host-out-of-memory"


@pytest.mark.parametrize("kind", ["crashed", "gone"])
def test_the_log_does_not_hold_the_cause(kind: DeathKind) -> None:
    entries = read("\n".join(f"INFO: line {number}" for number in range(100)))
    finding = diagnose(entries, Facts(), Death(kind=kind, unit={"result": "exit-code"}))

    assert finding.rule is None
    assert finding.confidence == "unknown"
    assert finding.explanation.startswith("The journal does not hold the cause")
    assert [line.number for line in finding.evidence] == list(range(91, 101))
    assert finding.looked_at[0] == "100 lines of the journal"


def test_a_healthy_service_needs_nothing() -> None:
    finding = diagnose(read("INFO: all is well"), Facts(), Death(kind="running"))

    assert finding.explanation.startswith("Nothing to cure: the service runs")
    assert finding.advice.startswith("Nothing;")


def test_a_failure_that_has_no_name_yet() -> None:
    finding = diagnose(read(raising("ValueError: something new")), Facts(), CRASHED)

    assert (finding.rule, finding.kind, finding.confidence) == (None, "unknown", "likely")
    assert finding.headline == "unknown: ValueError: something new"
    assert finding.remedy is None


def test_braces_in_hostile_text_are_only_text() -> None:
    text = raising(
        "RuntimeError: flashinfer-cubin version ({0.__class__}) does not match "
        "flashinfer version ({x})."
    )

    finding = diagnose(read(text), installed("0.6.3"), CRASHED)

    assert finding.remedy is None
    assert "{0.__class__}" in finding.explanation


def test_a_finding_survives_being_stored() -> None:
    finding = diagnose(from_short_iso(CUBIN_LOG), installed("0.6.3"), CRASHED)

    assert Finding.model_validate_json(finding.model_dump_json()) == finding


def test_facts_from_the_supervisor() -> None:
    document: dict[str, Any] = {
        "host": {"machine": "aarch64"},
        "environment": {
            "python_version": "3.11.2",
            "packages": [
                {"name": "numpy", "version": "2.2.0", "requires": ["x>1"], "installer": "uv"}
            ],
        },
    }

    facts = Facts.from_supervisor(json.loads(json.dumps(document)))

    assert (facts.machine, facts.python, facts.version("numpy")) == ("aarch64", "3.11.2", "2.2.0")
    assert [skew.package for skew in facts.skews()] == ["x"]


def test_every_rule_has_its_own_name_and_words() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.explanation.endswith(".") and rule.advice.endswith(".") for rule in RULES)
