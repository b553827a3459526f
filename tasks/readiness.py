"""Ready means serving: the right version, the model in the list, a question answered sanely."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from pydantic import SecretStr
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter
from tenacity.stop import stop_base

from blocks.settings import Settings
from blocks.types import Kind
from tasks import web
from tasks.probes import NOT_THIS_KIND, Probe, to_try
from tasks.startup.builds import same_build

_PAGE_SECONDS = 30.0
_SHOWN = 80
_PASSING = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


@dataclass(frozen=True)
class Wanted:
    """What a service has to be.

    Attributes:
        version: what `/version` must say.
        model: the name that `/v1/models` must list; None: the first one there.
        kind: what it must answer; auto: whatever it does.
        api_key: the bearer key of `/v1/*`.
    """

    version: str
    model: str | None = None
    kind: Kind = Kind.AUTO
    api_key: SecretStr | None = None


class NotReady(Exception):
    """The service answers, but not as it should."""


class _NotYet(NotReady):
    """The service does not answer yet."""


class _NotThisKind(NotReady):
    """The service's model does not serve such a question."""


class _Patience(stop_base):
    """Gives up in time; what it takes to prove the link, and to wait for it, does not count."""

    def __init__(self, seconds: float, link: Callable[[], object]) -> None:
        self._end = time.monotonic() + seconds
        self._link = link

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Tell whether to give up."""
        if isinstance(_error(retry_state), httpx.TransportError):
            self.prove_link()
        return time.monotonic() > self._end

    def prove_link(self) -> None:
        """Prove the link, and that it is still the service that is asked."""
        asked = time.monotonic()
        self._link()
        self._end += time.monotonic() - asked


class _Service:
    """The service that is asked."""

    def __init__(
        self, base_url: str, wanted: Wanted, patience: float, prove: Callable[[], object]
    ) -> None:
        key = wanted.api_key
        self._base_url, self._patience, self._prove = base_url, patience, prove
        self._headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}

    def get(self, path: str) -> web.Page:
        """Return a page."""
        return self._ask(path, seconds=min(_PAGE_SECONDS, self._patience))

    def post(self, path: str, question: object) -> web.Page:
        """Return the answer to a question; a busy service may take all the time there is."""
        return self._ask(path, method="POST", json=question, seconds=self._patience)

    def _ask(self, path: str, **more: Any) -> web.Page:
        url = f"{self._base_url}{path}"
        return web.ask(url, headers=self._headers, meanwhile=self._prove, **more)


def wait_until_ready(
    base_url: str,
    wanted: Wanted,
    *,
    link: Callable[[], object],
    patience: float | None = None,
) -> Kind:
    """Ask until the service is ready, with growing pauses, and return what kind it is.

    Args:
        base_url: where the service is reached from here.
        wanted: what it has to be.
        link: proves the link to the host, waiting for it as long as the host's patience goes, and
            raises NotReady where it is no longer this service that is asked.
        patience: how long to ask, in seconds; None: as the settings say.

    Raises:
        HostError: the link stayed lost; that says nothing of the service.
        NotReady: it did not become ready in time, or answers with another version, or not sanely.
    """
    patience = patience or Settings().ready_patience_seconds
    time_left = _Patience(patience, link)
    again = Retrying(
        retry=retry_if_exception_type((_NotYet, *_PASSING)),
        wait=wait_exponential_jitter(multiplier=0.2, max=5),
        stop=time_left,
        retry_error_callback=_give_up,
    )
    try:
        return again(_check, _Service(base_url, wanted, patience, time_left.prove_link), wanted)
    except httpx.HTTPError as error:  # its text may hold a header, and so the key
        raise NotReady(f"it cannot be asked: {type(error).__name__}") from None


def _give_up(state: RetryCallState) -> Kind:
    error = _error(state)
    why = str(error) if isinstance(error, NotReady) else _words(error)
    raise NotReady(f"not ready after {state.seconds_since_start or 0:.0f} s: {why}") from None


def _words(error: BaseException | None) -> str:
    """Say why nothing was answered, without the error's own text."""
    if isinstance(error, httpx.TimeoutException):
        return "timed out"
    return "nobody listens" if isinstance(error, httpx.ConnectError) else "the connection was cut"


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _check(service: _Service, wanted: Wanted) -> Kind:
    _ok(service.get("/health"), "/health")
    running = str(_json(service.get("/version"), "/version").get("version", ""))
    if not same_build(running, wanted.version):
        raise NotReady(f"/version says {running[:_SHOWN]!r}, not {wanted.version!r}")
    listed = _listed(_json(service.get("/v1/models"), "/v1/models"))
    if not listed or (wanted.model is not None and wanted.model not in listed):
        raise NotReady(f"/v1/models lists {str(listed)[:_SHOWN]}, not {wanted.model!r}")
    return _question(service, wanted.model or listed[0], wanted.kind)


def _question(service: _Service, model: str, kind: Kind) -> Kind:
    """Ask a question of the service's kind, or of each kind in turn; return the one it answers."""
    refusals = []
    for probe in to_try(kind):
        try:
            _ask(service, model, probe)
        except _NotThisKind as refusal:
            refusals.append(str(refusal))
        else:
            return probe.kind
    raise NotReady("; ".join(refusals))


def _ask(service: _Service, model: str, probe: Probe) -> None:
    answer = service.post(probe.path, {"model": model, **probe.body})
    if answer.status in NOT_THIS_KIND:
        raise _NotThisKind(f"{probe.path} answers {answer.status}")
    page = _json(answer, probe.path)
    try:
        problem = probe.judge(page)
    except OverflowError:
        problem = "a number beyond all measure"
    if problem:
        raise NotReady(f"{probe.path}: {problem.rstrip('.')}")


def _listed(page: dict[str, Any]) -> list[str]:
    entries = page.get("data")
    if not isinstance(entries, list):
        return []
    return [str(one["id"]) for one in entries if isinstance(one, dict) and "id" in one]


def _json(answer: web.Page, path: str) -> dict[str, Any]:
    try:
        page = _ok(answer, path).json()
    except ValueError as error:
        raise NotReady(f"{path} does not answer in JSON: {str(error)[:_SHOWN]}") from error
    if not isinstance(page, dict):
        raise NotReady(f"{path} does not answer with an object")
    return page


def _ok(answer: web.Page, path: str) -> web.Page:
    if answer.status >= 500 or answer.status == httpx.codes.TOO_MANY_REQUESTS:
        raise _NotYet(f"{path} answers {answer.status}")
    if answer.status != httpx.codes.OK:
        raise NotReady(f"{path} answers {answer.status}")
    return answer
