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
