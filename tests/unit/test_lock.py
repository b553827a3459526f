"""The lock is taken once a run, and given back only if it was taken."""

from collections.abc import Mapping
from typing import Any

import pytest

from blocks.errors import HostUnreachable, Refused
from blocks.service import Service
from blocks.supervisor_client import Outcome, Supervisor
from tasks.errors import StepFailed
from tasks.lock import acquire, release
from tasks.redeployment import Redeployment
from tasks.request import Request

RUN = "00000000-0000-0000-0000-000000000000"


class Host(Supervisor):
    """Notes what it is asked, and remembers what it is told."""

    asked: list[str]
    who: str = ""
    refuses: Exception | None = None

    def call(self, verb: str, payload: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        self.asked.append(verb)
        if verb == "lock" and self.refuses:
            raise self.refuses
        self.who = str(payload.get("who", self.who))
        return {}

    def ensure(self, operation: str, verb: str, arguments: Mapping[str, Any], **_: Any) -> Outcome:
        self.asked.append(verb)
        return Outcome(operation, verb, "succeeded", False, 0, 1, 1, dict(arguments))


@pytest.fixture
def run() -> Redeployment:
    service = Service.model_validate({"host": {"address": "h"}, "unit": "v", "environment": "/e"})
    run = Redeployment(RUN, Request(service="kimi"), service)
    run.supervisor = host = Host(service.host)
    host.asked = []
    return run


def host_of(run: Redeployment) -> Host:
    assert isinstance(run.supervisor, Host)
    return run.supervisor


def test_it_is_taken_once_and_given_back(run: Redeployment) -> None:
    acquire(run)
    assert host_of(run).who == "Prefect's UI or API"
    acquire(run)
    release(run)
    assert host_of(run).asked == ["lock", "remember", "unlock"]


def test_what_somebody_else_holds_is_not_given_back(run: Redeployment) -> None:
    host_of(run).refuses = Refused("It is held.")
    with pytest.raises(StepFailed, match="It is held"):
        acquire(run)
    release(run)
    assert host_of(run).asked == ["lock"]


def test_what_may_have_been_taken_is_given_back(run: Redeployment) -> None:
    host_of(run).refuses = HostUnreachable("gone")
    with pytest.raises(HostUnreachable):
        acquire(run)
    release(run)
    assert host_of(run).asked == ["lock", "unlock"]
