"""The service's own metrics: whether it works, idles or hangs, and which names are gone."""

import httpx

from tasks import web
from tasks.artifacts import best_effort
from tasks.redeployment import Redeployment
from tasks.startup.metrics import Metrics, heartbeat, parse, vanished

_SECONDS = 10.0


def read(base_url: str) -> Metrics | None:
    """Return the service's metrics, or None where they cannot be had."""
    try:
        page = web.ask(f"{base_url}/metrics", seconds=_SECONDS)
    except httpx.HTTPError:
        return None
    return parse(page.text) if page.status == httpx.codes.OK and page.whole else None


def beat(before: Metrics | None, after: Metrics | None, *, asked: bool = False) -> str:
    """Return "working", "idle", "hung" or "unknown"; asked: whether we asked it something."""
    if before is None or after is None:
        return "unknown"
    return heartbeat(before, after, asked)


def names_gone(run: Redeployment, before: list[str], address: str) -> list[str]:
    """Return the names of the old release's metrics that the new one no longer has."""
    with best_effort(run, "what became of the metrics"), run.reached(address) as base_url:
        now = read(base_url)
        if now is not None:
            return vanished(before, now.names())
    return []
