"""`redeploy serve`: Prefect's server on SQLite, its UI, and our deployments, in one process."""

import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from prefect import serve as serve_deployments
from prefect.server.api.server import create_app
from prefect.settings import PREFECT_API_URL, PREFECT_UI_API_URL, temporary_settings

from blocks import config
from blocks.errors import ConfigurationError, RedeployError
from blocks.settings import Settings
from deployments import terminal
from deployments.triggers import deployments

_START_SECONDS = 180


def serve_forever(host: str, port: int, runs: int, config_file: Path | None) -> None:
    """Serve the UI, the API and the deployments until Ctrl-C.

    Args:
        host: the address to listen on.
        port: the port to listen on.
        runs: how many redeploys may be under way at once.
        config_file: hosts and services; default: as the settings say.
    """
    try:
        configuration = _configuration(config_file)
        url = f"http://{_reached_at(host)}:{port}"
        # The UI asks the API where it came from itself, whatever name the browser knows us by.
        settings = {PREFECT_API_URL: f"{url}/api", PREFECT_UI_API_URL: "/api"}
        with temporary_settings(settings), _server(host, port, url):
            config.save(configuration)
            terminal.out.print(f"UI on {url}; Ctrl-C ends it.", highlight=False)
            serve_deployments(
                *deployments(configuration.services), limit=runs, pause_on_shutdown=False
            )
    except RedeployError as error:
        terminal.give_up(error)


def _configuration(config_file: Path | None) -> config.Configuration:
    """Return the configuration; without any, the blocks saved in Prefect are all there is."""
    path = config_file or Settings().config
    if config_file is None and not path.exists():
        return config.Configuration({}, {})
    return config.load(path)


def _reached_at(host: str) -> str:
    """Return the address at which we reach a server that listens on this one."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{here}]" if ":" in here else here


@contextmanager
def _server(host: str, port: int, url: str) -> Iterator[None]:
    server = uvicorn.Server(
        uvicorn.Config(create_app(), host=host, port=port, log_level="warning", lifespan="on")
    )
    # A thread begins without this context, in which the settings above are.
    settings = contextvars.copy_context()
    thread = threading.Thread(target=settings.run, args=(server.run,), daemon=True)
    thread.start()
    try:
        _wait(server, thread, url)
        yield
    finally:
        server.should_exit = True
        thread.join(timeout=30)


def _wait(server: uvicorn.Server, thread: threading.Thread, url: str) -> None:
    """Wait until our own server listens; another one on that port would answer as well."""
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise ConfigurationError(
                f"Prefect's server does not start on {url}.",
                hint="Is the port in use? Try another --port.",
            )
        time.sleep(0.1)
