"""`redeploy serve`: Prefect's server on SQLite, its UI, and our deployments, in one process."""

from datetime import UTC, datetime
from pathlib import Path

from prefect import serve as serve_deployments
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType

from blocks import config
from blocks.settings import Settings
from deployments import terminal
from deployments.by_itself import going_on
from deployments.server import served
from deployments.triggers import deployments
from flows.cancelled import SHUTTING_DOWN

_CUT_OFF = [StateType.CANCELLED, StateType.CANCELLING, StateType.RUNNING]


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
            for name, one in configuration.lacking.items():
                terminal.notice(f"{name} is left out: {one.why.message}")
            began = datetime.now(UTC)
            try:
                with going_on():
                    serve_deployments(
                        *deployments(configuration.services), limit=runs, pause_on_shutdown=False
                    )
            finally:
                _say_what_is_cut_off(began)


def _say_what_is_cut_off(since: datetime) -> None:
    """Name the redeploys that the end of this process has ended, and how to go on with them."""
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=["redeploy"])),
            flow_run_filter=FlowRunFilter(
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_CUT_OFF)),
                start_time=FlowRunFilterStartTime(after_=since),
            ),
        )
    for run in runs:
        state = run.state
        if state and state.is_cancelled() and SHUTTING_DOWN not in (state.message or ""):
            continue
        wish = run.parameters.get("request") or {}
        terminal.cut_off(run.name, wish.get("resume") or str(run.id))


def _configuration(config_file: Path | None) -> config.Configuration:
    """Return the configuration; without any, the blocks saved in Prefect are all there is."""
    path = config_file or Settings().config
    if config_file is None and not path.exists():
        return config.Configuration({}, {})
    return config.load(path)
