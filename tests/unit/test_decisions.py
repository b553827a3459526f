"""What is decided from facts: refusals, remedies, where things are kept."""

from typing import Any

import pytest

from tasks import plan as planning
from tasks.diagnosis.finding import Finding
from tasks.diagnosis.rules import Remedy
from tasks.facts import Facts
from tasks.fix import remedy_for
from tasks.packages.diff import diff
from tasks.packages.families import Skew
from tasks.packages.index import Wheel
from tasks.packages.versions import commit_delta
from tasks.planned import Plan
from tasks.prove_old import not_startable
from tasks.request import Request, SkewPolicy
from tasks.resolve import skews_with
from tasks.snapshot import unusable

OLD, NEW = "0.16.0rc2.dev313+g662205d34", "0.16.0rc2.dev344+gea5f903f8"
CUBIN = Skew("flashinfer", "flashinfer-cubin", "0.6.3", "flashinfer-python", "==0.6.4", fatal=True)
WARNING = Skew("requirement", "numpy", "2.3", "numba", "<2.3")


def facts(**changes: Any) -> Facts:
    document: dict[str, Any] = {
        "host": {
            "name": "gpu01",
            "os": "Debian",
            "kernel": "6.1",
            "machine": "x86_64",
            "python": "3.11.2",
            "boot_id": "b",
            "time": 0,
        },
        "uv": {"path": "/usr/local/bin/uv", "version": "0.13.9"},
        "unit": {
            "load_state": "loaded",
            "active_state": "active",
            "sub_state": "running",
            "result": "success",
        },
        "environment": {
            "path": "/opt/vllm/env",
            "exists": True,
            "python": "/opt/vllm/env/bin/python",
            "free_bytes": 10**12,
            "used_bytes": 10**9,
            "packages": [{"name": "vllm", "version": OLD}],
        },
    }
    for path, value in changes.items():
        part, _, field = path.partition("__")
        if field:
            document[part][field] = value
        else:
            document[part] = value
    return Facts.model_validate(document)


def plan(*skews: Skew) -> Plan:
    return Plan(
        before=OLD,
        after=NEW,
        wheel=Wheel(
            name="vllm",
            version=NEW,
            commit=None,
            variant=None,
            filename="v.whl",
            url="http://i/v.whl",
            tags=(),
        ),
        lock="",
        locked={"vllm": NEW},
        changes=diff({"vllm": OLD}, {"vllm": NEW}, ["vllm"]),
        delta=commit_delta(OLD, NEW),
        skews=list(skews),
    )


def wish(**fields: Any) -> Request:
    return Request(service="kimi", **fields)


def test_a_fatal_skew_is_refused_before_anything_is_stopped() -> None:
    said = planning.objection(plan(CUBIN, WARNING), wish(), facts())
    assert said is not None
    assert "flashinfer-cubin==0.6.4, but 0.6.3" in said
    assert "numpy" not in said


@pytest.mark.parametrize(
    ("locked", "said"),
    [
        (NEW, None),
        ("0.16.0", "a stable release, in the place of the nightly"),
        (OLD, "another pre-release"),
        (f"{NEW}.cu130", "the build for another CUDA"),
    ],
)
def test_what_is_resolved_is_what_was_asked_for(locked: str, said: str | None) -> None:
    found = planning.not_what_was_asked_for(plan().wheel, locked)
    assert (found is None) if said is None else (found is not None and said in found)
    assert planning.not_what_was_asked_for(None, locked) is None


@pytest.mark.parametrize(
    ("before", "after", "variant", "wrong"),
    [
        ("2.9.0", "2.10.0", None, False),
        ("2.9.0+cu130", "2.10.0+cu130", None, False),
        ("2.9.0+cu129", "2.10.0+cu130", "cu130", False),
        ("2.9.0+cu129", "2.10.0+cu130", None, False),
        ("2.9.0+cu130", "2.10.0", "cu130", False),
        ("2.9.0", "2.10.0+cu130", None, False),
        ("2.9.0", "2.10.0+cpu", None, True),
        ("2.9.0+cu130", "2.10.0+cpu", "cu130", True),
        ("2.9.0+cu130", "2.10.0+cu129", "cu130", True),
        ("2.9.0+cpu", "2.10.0+cpu", "cpu", False),
        (None, None, None, False),
    ],
)
def test_torch_is_the_build_that_vllm_was_built_against(
    before: str | None, after: str | None, variant: str | None, wrong: bool
) -> None:
    wheel = plan().wheel
    assert wheel is not None
    locked = {"torch": after} if after else {}
    found = plan().model_copy(
        update={"wheel": wheel.model_copy(update={"variant": variant}), "locked": locked}
    )
    assert (planning.another_torch(found, before) is not None) is wrong


def test_a_skew_knowingly_let_through_is_no_objection() -> None:
    assert planning.objection(plan(CUBIN), wish(skew=SkewPolicy.PROCEED), facts()) is None


def test_a_skew_that_may_work_is_no_objection() -> None:
    assert planning.objection(plan(WARNING), wish(), facts()) is None


def test_an_older_nightly_is_refused_unless_it_is_named() -> None:
    older = plan().model_copy(update={"before": NEW, "after": OLD})
    assert "older" in str(planning.objection(older, wish(), facts()))
    assert planning.objection(older, wish(target=OLD), facts()) is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"unit__needs_daemon_reload": True}, "daemon-reload"),
        ({"replaced": ["/opt/vllm/env/lib/torch.so"]}, "torch.so"),
        ({"gpus": {"problem": "NVML: Driver/library version mismatch"}}, "version mismatch"),
        ({"model": {"path": "/m", "exists": False, "problem": "/m did not answer"}}, "/m did not"),
    ],
)
def test_what_could_not_be_started_again_is_not_stopped(changes: Any, word: str) -> None:
    assert word in str(not_startable(facts(**changes)))


def test_a_host_without_a_driver_is_no_reason_not_to_stop() -> None:
    assert not_startable(facts()) is None
    assert not_startable(facts(gpus={"problem": "no NVIDIA driver (not found)"})) is None


def test_other_services_on_the_environment_are_named_and_refused_a_shell_is_not() -> None:
    shell = {"unit": "session-3.scope", "pid": 7, "command": "python"}
    other = {"unit": "vllm-b.service", "pid": None, "command": "/opt/vllm/env/bin/vllm serve"}
    assert planning.objection(plan(), wish(), facts(environment__others=[shell])) is None
    said = planning.objection(plan(), wish(), facts(environment__others=[shell, other]))
    assert said is not None
    assert "vllm-b.service" in said
    assert "session-3" not in said


def test_too_little_disk_is_refused() -> None:
    said = planning.objection(plan(), wish(), facts(environment__free_bytes=10**9))
    assert said is not None
    assert "1,000 MB are free" in said


def test_the_previous_release_is_gone_back_to_by_a_rollback() -> None:
    assert "by a rollback" in str(planning.not_there_yet(wish(target="previous")))
    assert planning.not_there_yet(wish()) is None


def test_what_stays_keeps_its_requirements_and_what_is_locked_has_none_yet() -> None:
    packages = [
        {"name": "vllm", "version": OLD, "requires": ["flashinfer-python==0.6.3"]},
        {"name": "plugin", "version": "1", "requires": ["vllm>=1"]},
    ]
    (found,) = skews_with(facts(environment__packages=packages), {"vllm": NEW})
    assert (found.required_by, found.package, found.installed) == ("plugin", "vllm", NEW)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"unit__load_state": "not-found"}, "does not know vllm.service"),
        ({"environment__exists": False}, "is not a Python environment"),
        ({"environment__problem": "it hangs"}, "could not be looked at: it hangs"),
        ({"environment__packages": []}, "vllm is not installed"),
        ({"uv": None}, "no uv"),
        ({}, None),
    ],
)
def test_a_host_that_is_not_as_configured(changes: dict[str, Any], said: str | None) -> None:
    found = unusable(facts(**changes), "vllm.service", "vllm")
    assert (found is None) if said is None else (found is not None and said in found)


def test_the_gpu_baseline_is_what_others_hold_of_our_gpus() -> None:
    gpu = {"index": 0, "name": "H", "memory_total": 100, "memory_used": 90}
    ours = {"pid": 1, "memory": 80, "ours": True}
    theirs = {"pid": 2, "memory": 10, "ours": False}
    gpus = [{**gpu, "processes": [ours, theirs]}, {**gpu, "index": 1, "processes": [theirs]}]
    found = facts(gpus={"driver": "580", "problem": None, "gpus": gpus})
    assert found.gpu_baseline() == {"0": 10}


def finding(**remedy: Any) -> Finding:
    given = {
        "rule": "r",
        "safety": "auto",
        "acts": ({"act": "install", "packages": ("a==1",)},),
        "check": "",
        "sentence": "",
    }
    return Finding(
        rule="r",
        kind="version-skew",
        root_cause=None,
        where="",
        confidence="certain",
        explanation="",
        evidence=(),
        remedy=Remedy(**{**given, **remedy}),
        advice="",
        looked_at=(),
    )


@pytest.mark.parametrize("acts", [(), ({"act": "go-back"},)])
def test_without_an_act_or_with_the_way_back_there_is_nothing_to_carry_out(acts: Any) -> None:
    assert remedy_for(finding(acts=acts), set()) is None


def test_an_automatic_remedy_is_allowed_once() -> None:
    assert remedy_for(finding(), set()) is not None
    assert remedy_for(finding(), {"r"}) is None


@pytest.mark.parametrize("safety", ["approval", "human"])
def test_any_other_remedy_is_not(safety: str) -> None:
    assert remedy_for(finding(safety=safety), set()) is None
