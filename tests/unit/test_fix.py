"""What a remedy's acts ask of the host: the service's own unit and environment, typed."""

from typing import Any, get_args

import pytest

from blocks.host import Host
from blocks.service import Service
from blocks.supervisor.arguments import DOING, checked
from tasks.diagnosis.rules.acts import (
    Act,
    DropIn,
    EndLeftOvers,
    FetchKernels,
    GoBack,
    Install,
    SetAside,
    StartAgain,
    Uninstall,
)
from tasks.fix import operation_of

SERVICE = Service(
    host=Host(address="gpu01.example"),
    unit="vllm.service",
    environment="/opt/vllm/env",
    indexes=["https://own.example/simple"],
)
INSTALL = Install(packages=("a==1",), indexes=("https://first.example",))
ENVIRONMENT = {"environment": "/opt/vllm/env"}
ASKED: list[tuple[Act, tuple[str, dict[str, Any]] | None]] = [
    (
        INSTALL,
        (
            "install",
            {
                **ENVIRONMENT,
                "packages": ["a==1"],
                "first_indexes": ["https://first.example"],
                "indexes": ["https://own.example/simple"],
            },
        ),
    ),
    (Uninstall(packages=("a",)), ("uninstall", {**ENVIRONMENT, "packages": ["a"]})),
    (FetchKernels(), ("fetch-kernels", ENVIRONMENT)),
    (
        DropIn(lines=("LimitNOFILE=1",)),
        ("drop-in", {"unit": "vllm.service", "name": "a-rule", "lines": ["LimitNOFILE=1"]}),
    ),
    (EndLeftOvers(unit="of-the-log.service"), ("end-left-overs", {"unit": "vllm.service"})),
    (SetAside(path="/h/.cache/x"), ("set-aside", {"path": "/h/.cache/x"})),
    (StartAgain(unit="of-the-log.service"), None),
    (GoBack(), None),
]


@pytest.mark.parametrize(("act", "asked"), ASKED, ids=lambda one: getattr(one, "act", ""))
def test_an_act_is_one_verb(act: Act, asked: tuple[str, dict[str, Any]] | None) -> None:
    found = operation_of(act, SERVICE, "a-rule")

    assert found == asked
    if found:
        assert checked(*found, DOING).items() >= found[1].items()


def test_every_act_is_here() -> None:
    union = get_args(get_args(Act)[0])
    assert {type(act) for act, _ in ASKED} == set(union)
