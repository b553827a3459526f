"""Runs the flow in this process, on the session's server: quicker than a process for each run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.prefect_api import FlowRun
from tests.integration.serving import Serving


def redeploy(server: Serving, **request: Any) -> FlowRun:
    """Run the flow to its end and return its run as the server has it."""
    from flows.redeploy import redeploy as flow
    from tasks.request import Request

    with on_server(server):
        state = flow(Request(**request), return_state=True)
    return server.api.flow_run(str(state.state_details.flow_run_id))


def save_blocks(server: Serving, config: Path) -> None:
    """Save a configuration's hosts and services in the session's server."""
    from blocks import config as configuration

    with on_server(server):
        configuration.save(configuration.load(config))


@contextmanager
def on_server(server: Serving) -> Iterator[None]:
    """Have Prefect in this process speak to the session's server."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    with temporary_settings({PREFECT_API_URL: f"{server.url}/api", PREFECT_HOME: server.home}):
        yield


def say_the_rest(server: Serving) -> None:
    """Send what this process has not told the server yet, while there is one."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogHandler

    with on_server(server):
        APILogHandler().flush()
        EventsWorker.drain_all()
