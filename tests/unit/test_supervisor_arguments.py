"""Whatever a call holds, it is checked before anything is done."""

from typing import Any

import pytest

from blocks.supervisor.arguments import DOING, READING, check_together, checked
from blocks.supervisor.failures import Refusal

ENVIRONMENT = "/opt/vllm/env"


def test_defaults_are_filled_in() -> None:
    given = {"environment": ENVIRONMENT, "requirements": ["vllm==1"]}
    assert checked("resolve", given, DOING) == {
        "environment": ENVIRONMENT,
        "requirements": ["vllm==1"],
        "constraints": [],
        "wheels": [],
        "first_indexes": [],
        "indexes": [],
        "find_links": [],
    }


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("reboot", {}),
        ("stop", {"unit": "x.service"}),
        ("stop", {"unit": "x;y.service", "timeout_seconds": 1}),
        ("stop", {"unit": "-x.service", "timeout_seconds": 1}),
        ("stop", {"unit": "x.service", "timeout_seconds": float("inf")}),
        ("stop", {"unit": "x.service", "timeout_seconds": True}),
        ("stop", {"unit": "x.service", "timeout_seconds": 1, "force": True}),
        ("stage", {"environment": "/a/../b", "release": "r", "lock": ""}),
        ("stage", {"environment": ENVIRONMENT, "release": "../r", "lock": ""}),
        ("stage", {"environment": ENVIRONMENT, "release": "r", "lock": "\ud800"}),
        ("resolve", {"environment": ENVIRONMENT, "requirements": ["-r /etc/shadow"]}),
        ("resolve", {"environment": ENVIRONMENT, "requirements": ["a\n--index-url x"]}),
        ("resolve", {"environment": ENVIRONMENT, "requirements": ["a"], "indexes": ["ftp://x"]}),
        ("resolve", {"environment": ENVIRONMENT, "requirements": ["a"], "indexes": ["-f"]}),
        (
            "resolve",
            {"environment": ENVIRONMENT, "requirements": ["a"], "indexes": ["https://u:p@x/s"]},
        ),
        ("install", {"environment": ENVIRONMENT, "packages": ["a==1 --pre"]}),
        ("install", {"environment": ENVIRONMENT, "packages": ["a>=1"]}),
        ("cleanup", {"patterns": ["/*.pt"], "owner": "root"}),
        ("cleanup", {"patterns": ["tmp/*.pt"], "owner": "root"}),
        ("cleanup", {"patterns": ["/var/x"], "owner": "root; rm"}),
        ("verify", {"environment": ENVIRONMENT, "imports": ["os; print(1)"]}),
    ],
)
def test_refused(verb: str, given: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        checked(verb, given, DOING)
    assert refused.value.kind in ("bad-argument", "unknown-verb")


ENSURE = {
    "operation": "r/a",
    "verb": "benchmark",
    "holder": "r",
    "environment": ENVIRONMENT,
    "arguments": {},
}


def test_two_secrets_may_be_brought() -> None:
    secrets = {"OPENAI_API_KEY": "sk 1", "HF_TOKEN": "hf_1"}
    assert checked("ensure", {**ENSURE, "secrets": secrets}, READING)["secrets"] == secrets
    assert checked("ensure", ENSURE, READING)["secrets"] == {}


@pytest.mark.parametrize("name", ["LD_PRELOAD", "openai_api_key", ""])
def test_no_other_variable_is_a_secret(name: str) -> None:
    with pytest.raises(Refusal):
        checked("ensure", {**ENSURE, "secrets": {name: "x"}}, READING)


@pytest.mark.parametrize("value", ["tell\nnobody", "t\u00ebll nobody", "", 1, None])
def test_a_secret_that_is_refused_is_not_repeated(value: Any) -> None:
    with pytest.raises(Refusal) as refused:
        checked("ensure", {**ENSURE, "secrets": {"HF_TOKEN": value}}, READING)
    assert "nobody" not in str(refused.value.document())


@pytest.mark.parametrize("name", ["", "/x", "x/", "a//b", "../x", "A", "a b", "a.b"])
def test_names_of_operations_cannot_leave_their_folder(name: str) -> None:
    with pytest.raises(Refusal):
        checked("operations", {"prefix": name}, READING)


@pytest.mark.parametrize(
    "given",
    [
        {"environment": "/opt/other"},
        {"sibling": "/etc/x"},
        {"sibling": f"{ENVIRONMENT}.a/../../etc"},
        {"previous": ENVIRONMENT},
        {"look_at": "/opt/vllm/env2"},
    ],
)
def test_paths_stay_with_the_locked_environment(given: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        check_together(ENVIRONMENT, given)


def test_siblings_are_allowed() -> None:
    check_together(ENVIRONMENT, {"sibling": f"{ENVIRONMENT}.r1", "look_at": ENVIRONMENT})
