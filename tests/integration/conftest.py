"""Real hosts and a real Prefect server, shared by the whole session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.sandbox.stories import STORIES
from tests.integration.in_process import save_blocks, say_the_rest
from tests.integration.prefect_api import PrefectApi
from tests.integration.scenes import Scene, on_stage, sweep
from tests.integration.serving import Serving, serving

QUICK = """
start_deadline_seconds = 6
gpu_wait_seconds = 5
benchmark = { num_prompts = 8, input_len = 8, output_len = 32, deadline_seconds = 6 }
"""


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the session's configurations, Prefect's home and logs."""
    sweep()
    return tmp_path_factory.mktemp("workshop")


@pytest.fixture(scope="session")
def kimi_host(workshop: Path) -> Iterator[Scene]:
    """The first story on a host of its own."""
    with on_stage(1, STORIES["kimi"], workshop) as scene:
        yield scene


@pytest.fixture
def kimi(kimi_host: Scene) -> Scene:
    """The first story, at its beginning."""
    return kimi_host.fresh()


@pytest.fixture(scope="session")
def server(workshop: Path, kimi_host: Scene) -> Iterator[Serving]:
    """`redeploy serve` for the session."""
    with serving(kimi_host.config, workshop) as running:
        kimi_host.publish(lambda config: save_blocks(running, config))
        yield running
        say_the_rest(running)


@pytest.fixture(scope="session")
def second_host(workshop: Path, server: Serving) -> Iterator[Scene]:
    """The second story on a host of its own."""
    with on_stage(2, STORIES["second"], workshop) as scene:
        scene.publish(lambda config: save_blocks(server, config))
        yield scene


@pytest.fixture
def second(second_host: Scene) -> Scene:
    """The second story, at its beginning."""
    return second_host.fresh()


@pytest.fixture(scope="session")
def small_host(workshop: Path, server: Serving) -> Iterator[Scene]:
    """The story of few packages on a host of its own: quick, with a short deadline."""
    with on_stage(3, STORIES["small"], workshop, extra=QUICK, load_seconds=1) as scene:
        scene.publish(lambda config: save_blocks(server, config))
        yield scene


@pytest.fixture
def small(small_host: Scene) -> Scene:
    """The story of few packages, at its beginning."""
    return small_host.fresh()


@pytest.fixture(scope="session")
def prefect(server: Serving) -> PrefectApi:
    """The API of the session's server."""
    return server.api
