"""What is said of a redeploy that its host has ended."""

from typing import Any

from blocks.service import Service
from blocks.supervisor.transactions import STILL_DRAINED
from tasks.record import no_longer_drained
from tasks.redeployment import Redeployment
from tasks.request import Request
from tests.unit.records import record


class Run(Redeployment):
    """A redeploy whose host keeps what it is told to record."""

    def __init__(self) -> None:
        service = {"host": {"address": "h"}, "unit": "v", "environment": "/e"}
        super().__init__("r1", Request(service="kimi"), Service.model_validate(service))
        self.recorded_as: dict[str, str] = {}

    def do(self, step: str, verb: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        assert (step, verb) == ("record", "record")
        self.recorded_as[more["operation"]] = arguments["record"]["verdict"]
        return {}


def test_a_verdict_that_it_is_out_of_its_router_is_corrected_once_it_is_back() -> None:
    run = Run()
    ended = record(verdict=f"Serving 2. {STILL_DRAINED} (redeploy resume r1).")
    corrected = "Serving 2. It is back in its router."
    assert no_longer_drained(run, ended) == corrected
    assert run.recorded_as == {"record-undrained": corrected}


def test_another_verdict_stands() -> None:
    run = Run()
    assert no_longer_drained(run, record(verdict="Serving 2.")) == "Serving 2."
    assert run.recorded_as == {}
