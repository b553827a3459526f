"""`redeploy serve`: Prefect's server on SQLite, its UI, and our deployments, in one process."""

from pathlib import Path

from prefect import serve as serve_deployments

from blocks import config
from blocks.settings import Settings
from deployments import terminal
from deployments.server import served
from deployments.triggers import deployments


def serve_forever(host: str, port: int, runs: int, config_file: Path | None) -> None:
    """Serve the UI, the API and the deployments until Ctrl-C.

    Args:
        host: the address to listen on.
        port: the port to listen on.
        runs: how many redeploys may be under way at once.
        config_file: hosts and services; default: as the settings say.
    """
    with terminal.errors_told():
        configuration = _configuration(config_file)
        with served(host, port) as url:
            config.save(configuration)
            terminal.out.print(f"UI on {url}; Ctrl-C ends it.", highlight=False)
            serve_deployments(
                *deployments(configuration.services), limit=runs, pause_on_shutdown=False
            )


def _configuration(config_file: Path | None) -> config.Configuration:
    """Return the configuration; without any, the blocks saved in Prefect are all there is."""
    path = config_file or Settings().config
    if config_file is None and not path.exists():
        return config.Configuration({}, {})
    return config.load(path)
