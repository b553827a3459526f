"""Take the service out of its router, and wait until it has no requests."""

import logging
import math
import time
from collections.abc import Callable

import httpx
from pydantic import BaseModel

from tasks import web
from tasks.hooks import call_for
from tasks.redeployment import Redeployment
from tasks.startup import metrics
from tasks.steps import step

BEGUN, DONE, BACK = "draining", "drained", "undrained"
_REQUESTS = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_IDLE_READINGS = 2
_TRIES = 3
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.5, 5.0, 1.5
_REQUEST_SECONDS = 5.0


class Drained(BaseModel):
    """What came of draining.

    Attributes:
        requests_left: how many requests the stop will cut off; None: nobody knows.
        seconds: how long they were waited for.
        hook: whether a hook was called.
    """

    requests_left: int | None = None
    seconds: float = 0
    hook: bool = False


class Unreadable(Exception):
    """The metrics could not be read, or do not say how many requests there are."""


@step("drain", kept=False)
def drain(run: Redeployment, address: str) -> Drained:
    """Call the service's drain hook and wait until it has no requests, or until the deadline.

    Without a hook nothing is done: a service that goes on getting requests never is without.

    Args:
        run: the redeploy.
        address: where the service listens on its host.

    Raises:
        StepFailed: the hook failed; the service is up and may be out of its router.
    """
    return take_out(run, address)


def take_out(run: Redeployment, address: str) -> Drained:
    """Drain the service, once; see `drain`."""
    hook = run.service.drain
    if hook is None:
        return Drained()
    with run.in_phase(""):
        done = run.done()
        number = turn(done)
        if f"{DONE}-{number}" in done:
            return _remembered(run, number, Drained())
        # Written down first: whoever is killed from here on has to put it back later.
        run.do("drain", "remember", {"document": {}}, operation=f"{BEGUN}-{number}")
        call_for("drain", hook, run.host)
        run.log(f"out of its router by {hook.in_words()}")
        return _remembered(run, number, _wait(run, address))


def turn(done: set[str]) -> int:
    """Return which time of draining it is, by what is done: a new one after each putting back."""
    return 1 + sum(name.startswith(f"{BACK}-") for name in done)


def is_out(done: set[str]) -> bool:
    """Tell by what is done whether draining was begun and not undone."""
    return f"{BEGUN}-{turn(done)}" in done


def _remembered(run: Redeployment, number: int, drained: Drained) -> Drained:
    """Write the outcome down on the host; the first one that was written stands."""
    document = {"document": drained.model_dump(mode="json")}
    kept = run.do("drain", "remember", document, operation=f"{DONE}-{number}")
    return Drained.model_validate(kept["document"])


def _wait(run: Redeployment, address: str) -> Drained:
    began = time.monotonic()
    deadline = run.service.drain_deadline_seconds
    with run.host.tunnel(run.service.port, address) as local_port:
        left = wait_until_idle(
            lambda: _read(run, f"http://127.0.0.1:{local_port}/metrics"), deadline, run.log
        )
    seconds = time.monotonic() - began
    if left is None:
        run.log("how many requests are cut off is unknown", logging.WARNING)
    elif left:
        run.log(f"{left} requests are cut off: they did not end in {deadline} s", logging.WARNING)
    else:
        run.log(f"no requests left after {seconds:.1f} s")
    return Drained(requests_left=left, seconds=seconds, hook=True)


def wait_until_idle(
    read: Callable[[], int], deadline_seconds: float, say: Callable[[str, int], None]
) -> int | None:
    """Read again and again, until two readings in a row say that there are no requests.

    Args:
        read: returns the number of requests that run or wait; raises `Unreadable`.
        deadline_seconds: how long to wait.
        say: told each new number, and what cannot be read.

    Returns:
        The last number read; None where three readings in a row failed.
    """
    end = time.monotonic() + deadline_seconds
    idle, failed, pause = 0, 0, _FIRST_PAUSE
    last: int | None = None
    while True:
        try:
            count = read()
        except Unreadable as error:
            failed, idle = failed + 1, 0
            say(f"the requests cannot be counted: {error}", logging.WARNING)
            if failed == _TRIES:
                return None
        else:
            failed, idle = 0, 0 if count else idle + 1
            if count and count != last:
                say(f"requests under way: {count}", logging.INFO)
            last = count
            if idle == _IDLE_READINGS:
                return 0
        remaining = end - time.monotonic()
        if remaining <= 0:
            return last
        time.sleep(min(remaining, _FIRST_PAUSE if idle else pause))
        pause = min(_LONGEST_PAUSE, pause * _GROWTH)


def _read(run: Redeployment, url: str) -> int:
    try:
        page = web.ask(url, seconds=_REQUEST_SECONDS)
    except httpx.TransportError as error:
        _prove_link(run)
        raise Unreadable(f"/metrics does not answer ({type(error).__name__})") from error
    if page.status != httpx.codes.OK:
        raise Unreadable(f"/metrics answers {page.status}")
    return requests_in(page.text)


def _prove_link(run: Redeployment) -> None:
    """Wait for a lost link as long as the host's patience goes: it says nothing of the service."""
    run.supervisor.call("version", {})


def requests_in(text: str) -> int:
    """Return how many requests run or wait, over all engines.

    Raises:
        Unreadable: the metrics do not say it.
    """
    found = [one for one in metrics.parse(text).samples if one.name in _REQUESTS]
    values = [one.value for one in found]
    if {one.name for one in found} != set(_REQUESTS) or not all(map(math.isfinite, values)):
        raise Unreadable("/metrics does not say how many requests there are")
    return math.ceil(sum(values))
