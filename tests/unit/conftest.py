"""What several unit tests start from."""

from collections.abc import Iterator

import pytest
from tenacity import wait_none

from tasks import hooks
from tests.unit.routers import Router, routing


@pytest.fixture
def router() -> Iterator[Router]:
    with routing() as router:
        yield router


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses between tries of a hook pass at once."""
    monkeypatch.setattr(hooks, "PAUSES", wait_none())
