"""Ready means serving: the target's version, the model in the list, one completion."""

import httpx
from packaging.version import InvalidVersion, Version
from pydantic import SecretStr
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

_PATIENCE_SECONDS = 60.0
_REQUEST_SECONDS = 30.0


class NotReady(Exception):
    """The service answers, but not as it should."""


class _NotYet(NotReady):
    """The service does not answer yet."""


def wait_until_ready(
    base_url: str, *, version: str, model: str | None, api_key: SecretStr | None
) -> None:
    """Ask until the service is ready, with growing pauses.

    Args:
        base_url: where the service is reached from here.
        version: what `/version` must say.
        model: the name that `/v1/models` must list; None: the first one there.
        api_key: the bearer key of `/v1/*`.

    Raises:
        NotReady: it did not become ready within a minute, or answers with another version.
    """
    headers = {"Authorization": f"Bearer {api_key.get_secret_value()}"} if api_key else {}
    with httpx.Client(base_url=base_url, headers=headers, timeout=_REQUEST_SECONDS) as client:
        for attempt in Retrying(
            retry=retry_if_exception_type((_NotYet, httpx.TransportError)),
            wait=wait_exponential_jitter(multiplier=0.2, max=5),
            stop=stop_after_delay(_PATIENCE_SECONDS),
            retry_error_callback=_give_up,
        ):
            with attempt:
                _check(client, version, model)


def _give_up(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    raise NotReady(f"not ready after {state.seconds_since_start or 0:.0f} s: {error}") from error


def _check(client: httpx.Client, version: str, model: str | None) -> None:
    _ok(client.get("/health"), "/health")
    running = str(_ok(client.get("/version"), "/version").json().get("version", ""))
    if not same_version(running, version):
        raise NotReady(f"/version says {running!r}, not {version!r}")
    listed = [entry["id"] for entry in _ok(client.get("/v1/models"), "/v1/models").json()["data"]]
    if not listed or (model is not None and model not in listed):
        raise NotReady(f"/v1/models lists {listed}, not {model!r}")
    body = {"model": model or listed[0], "prompt": "1", "max_tokens": 1, "temperature": 0}
    answer = _ok(client.post("/v1/completions", json=body), "/v1/completions").json()
    if not answer.get("choices"):
        raise NotReady("/v1/completions answered without a choice")


def _ok(response: httpx.Response, path: str) -> httpx.Response:
    if response.status_code >= 500:
        raise _NotYet(f"{path} answers {response.status_code}")
    if response.status_code != 200:
        raise NotReady(f"{path} answers {response.status_code}")
    return response


def same_version(one: str, other: str) -> bool:
    """Tell whether two version texts mean the same version."""
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other
