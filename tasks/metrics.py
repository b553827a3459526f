"""The service's own metrics: whether it works, idles or hangs, and which names are gone."""

import httpx

from tasks.artifacts import best_effort
from tasks.redeployment import Redeployment
from tasks.startup.metrics import Metrics, heartbeat, parse, vanished

_SECONDS = 10.0
_REMEMBERED = "metrics-before"


def read(base_url: str) -> Metrics | None:
    """Return the service's metrics, or None where they cannot be had."""
    try:
        response = httpx.get(f"{base_url}/metrics", timeout=_SECONDS, trust_env=False)
    except httpx.HTTPError:
        return None
    return parse(response.text) if response.status_code == 200 else None


def beat(before: Metrics | None, after: Metrics | None, *, asked: bool = False) -> str:
    """Return "working", "idle", "hung" or "unknown"; asked: whether we asked it something."""
    if before is None or after is None:
        return "unknown"
    return heartbeat(before, after, asked)


def remember_names(run: Redeployment, names: set[str]) -> list[str]:
    """Keep the names of the running release's metrics on the host; the first ones stay."""
    document = {"names": sorted(names)}
    kept = run.do("prove-old", "remember", {"document": document}, operation=_REMEMBERED)
    return [str(name) for name in kept["document"]["names"]]


def names_gone(run: Redeployment, address: str) -> list[str]:
    """Return the names of the old release's metrics that the new one no longer has."""
    with best_effort(run, "what became of the metrics"), run.reached(address) as base_url:
        now = read(base_url)
        if now is not None:
            return vanished(remember_names(run, set()), now.names())
    return []
