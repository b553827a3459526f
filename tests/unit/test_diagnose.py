"""What is read for a diagnosis: the journal of the start that failed, and who offers a package."""

from typing import Any

import pytest

from blocks.host import Host
from blocks.service import Service
from tasks.diagnose import journal_of, who_offers
from tasks.errors import StepFailed
from tasks.redeployment import Redeployment
from tasks.request import Request
from tasks.start import Launched

OWN = "https://flashinfer.ai/whl"
SERVICE = Service(
    host=Host(address="gpu01.example"),
    unit="vllm.service",
    environment="/opt/vllm/env",
    indexes=["https://own.example/simple"],
)


class Run(Redeployment):
    """A redeploy whose host has begun an attempt, and whose indexes offer what they are told to."""

    def __init__(self, *offer: str) -> None:
        super().__init__("r", Request(service="s"), SERVICE)
        self.phase = "attempt-1"
        self.offer = offer
        self.asked: list[list[str]] = []

    def recorded(self, phase: str = "") -> list[dict[str, Any]]:
        assert phase == "attempt-1"
        return [{"operation": "r/attempt-1/start", "started": 100.0}]

    def do(self, step: str, verb: str, arguments: dict[str, Any], **_: Any) -> dict[str, Any]:
        indexes = [*arguments["first_indexes"], *arguments["indexes"]]
        self.asked.append(indexes)
        if indexes[0] not in self.offer:
            raise StepFailed(step, "unresolvable", f"{verb}: none")
        return {}


def failure(**fields: Any) -> StepFailed:
    return StepFailed("start", "start-refused", "systemd refused.", **fields)


def test_a_start_that_was_launched_has_a_journal_of_its_own() -> None:
    asked = journal_of(Run(), failure(), Launched(invocation="a" * 32, started=50.0))
    assert (asked["invocation"], asked["since"]) == ("a" * 32, 50.0)


def test_of_one_that_was_not_begun_nothing_earlier_is_read() -> None:
    asked = journal_of(Run(), failure(), None)
    assert (asked["invocation"], asked["since"]) == (None, 100.0)


def test_one_that_died_later_is_known_by_its_invocation() -> None:
    asked = journal_of(Run(), failure(invocation="b" * 32), None)
    assert (asked["invocation"], asked["since"]) == ("b" * 32, None)


@pytest.mark.parametrize(
    ("package", "offer", "offered", "asked"),
    [
        ("flashinfer-cubin==0.6.4", SERVICE.indexes[0], "configured", 1),
        ("flashinfer-cubin==0.6.14", OWN, "flashinfer", 2),
        ("flashinfer-jit-cache==0.6.14+cu130", f"{OWN}/cu130", "flashinfer", 2),
        ("flashinfer-cubin==0.6.14", "", None, 2),
    ],
)
def test_the_services_indexes_are_asked_first(
    package: str, offer: str, offered: str | None, asked: int
) -> None:
    run = Run(offer)
    assert who_offers(run, package) == {"download", *([offered] if offered else [])}
    assert len(run.asked) == asked
