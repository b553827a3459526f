"""Prefect's server in a thread of this process, so that it ends with it however that ends."""

import contextvars
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogHandler
from prefect.server.api.server import create_app
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_HOME,
    PREFECT_UI_API_URL,
    temporary_settings,
)

from blocks.errors import ConfigurationError

_START_SECONDS = 180
_END_SECONDS = 30
_ANSWER_SECONDS = 10
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


@contextmanager
def served(host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve Prefect's API and UI, and make it the API of this process; yield its address.

    Args:
        host: the address to listen on.
        port: the port to listen on; 0: any that is free.

    Raises:
        ConfigurationError: that address or port cannot be had.
    """
    _check_home(PREFECT_HOME.value())
    listening = _listen(host, port)
    with listening:
        url = f"http://{_reached_at(host)}:{listening.getsockname()[1]}"
        # The UI asks the API where it came from itself, whatever name the browser knows us by.
        with (
            temporary_settings({PREFECT_API_URL: f"{url}/api", PREFECT_UI_API_URL: "/api"}),
            _running(listening, url),
        ):
            yield url


@contextmanager
def an_api() -> Iterator[None]:
    """Use the API that is configured; where none is, serve one for as long as it is needed.

    Raises:
        ConfigurationError: nobody answers there, or Prefect's own folder cannot be used.
    """
    if url := PREFECT_API_URL.value():
        _check_api(url)
        yield
        return
    with served():
        yield


def _check_api(url: str) -> None:
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": _ANSWER_SECONDS}) as client,
    ):
        problem = client.api_healthcheck()
    if isinstance(problem, httpx.TransportError):
        raise ConfigurationError(
            f"Prefect's API at {url} does not answer ({type(problem).__name__}).",
            "Start it, or unset PREFECT_API_URL: then one is brought for as long as it is needed.",
        )


def _check_home(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"Prefect's folder {home} cannot be used: {error.strerror}.", "Set PREFECT_HOME."
        ) from error


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"{host} port {port} cannot be listened on: {error.strerror}.", "Try another --port."
        ) from error


def _reached_at(host: str) -> str:
    here = _EVERYWHERE.get(host, host)
    return f"[{here}]" if ":" in here else here


@contextmanager
def _running(listening: socket.socket, url: str) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(create_app(), log_level="warning", lifespan="on"))
    # A thread begins without this context, in which the settings are.
    settings = contextvars.copy_context()
    thread = threading.Thread(
        target=settings.run, args=(server.run, [listening]), name="prefect-server", daemon=True
    )
    thread.start()
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise ConfigurationError(
                    f"Prefect's server does not start on {url}.",
                    "Run `prefect server start` to see why.",
                )
            time.sleep(0.05)
        yield
    finally:
        APILogHandler().flush()  # what is still on its way needs the server
        EventsWorker.drain_all()
        server.should_exit = True
        thread.join(timeout=_END_SECONDS)
