"""One redeploy under way: what was asked for, the door to its host, and the time it took."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from prefect.logging import get_run_logger
from pydantic import BaseModel, SecretStr

from blocks.errors import RedeployError, Refused
from blocks.host import Host
from blocks.service import Service
from blocks.supervisor.transactions import STOPS
from blocks.supervisor_client import Outcome, Supervisor
from tasks.errors import StepFailed
from tasks.facts import Facts
from tasks.policies import seconds_for
from tasks.request import Request

_current: ContextVar["Redeployment"] = ContextVar("redeployment")


class StepTime(BaseModel):
    """How long one step took as the flow saw it, in seconds, and whether it did what it should."""

    phase: str
    step: str
    seconds: float
    ok: bool


class Redeployment:
    """One redeploy under way. Opaque to Prefect: neither a dataclass nor a model.

    `before` is the host as the snapshot found it, from then on; `holds_lock` says whether this
    run has taken the environment's lock, or may have; `kind` what the running release was found
    to answer, or else what is configured.
    """

    def __init__(self, id_: str, request: Request, service: Service) -> None:
        self.id = id_
        self.request = request
        self.service = service
        self.host: Host = service.host
        self.supervisor = Supervisor(service.host)
        self.before: Facts | None = None
        self.kind = service.kind
        self.holds_lock = False
        self.phase = ""
        self.step = ""
        self.times: list[StepTime] = []

    @property
    def short_id(self) -> str:
        """The first eight digits of the id, for names of folders."""
        return self.id[:8]

    @classmethod
    def current(cls) -> "Redeployment":
        """Return the redeploy that the running flow belongs to."""
        return _current.get()

    @contextmanager
    def opened(self) -> Iterator["Redeployment"]:
        """Make this the current redeploy; its connection is closed at the end."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)
            self.host.close()

    @contextmanager
    def in_phase(self, phase: str) -> Iterator[None]:
        """Name the operations of this block `<id>/<phase>/<step>`."""
        outer, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = outer

    def attempt_name(self, number: int) -> str:
        """Return the name of an attempt's page; one that the host has a verdict on is a replay."""
        over = any(
            one["verb"] == "watch" and one["state"] != "running"
            for one in self.recorded(f"attempt-{number}")
        )
        return f"attempt {number} (replayed)" if over else f"attempt {number}"

    def recorded(self, phase: str = "") -> list[dict[str, Any]]:
        """Return what the host's log holds of this redeploy, or of one phase of it."""
        asked = {"prefix": f"{self.id}/{phase}".rstrip("/")}
        found: list[dict[str, Any]] = self.supervisor.call("operations", asked)["operations"]
        return found

    def done(self) -> set[str]:
        """Return the operations of this redeploy that the host has recorded as done, short names.

        Those outside of any phase are meant.
        """
        names = {one["operation"] for one in self.recorded() if one["state"] == "succeeded"}
        return {name.removeprefix(f"{self.id}/") for name in names}

    def has_stopped(self) -> bool:
        """Tell whether the host was ever told to stop the service; in doubt it was."""
        try:
            return bool(self.stops())
        except RedeployError:
            return True

    def is_undertaken(self) -> bool:
        """Tell whether the host would end this redeploy by itself; in doubt it would."""
        try:
            return any(one["verb"] == "open" for one in self.recorded())
        except RedeployError:
            return True

    def stops(self) -> list[dict[str, Any]]:
        """Return the operations by which the host was told to stop the service."""
        return [one for one in self.recorded() if one["verb"] in STOPS]

    def finished(self, name: str) -> bool:
        """Tell whether the host has recorded an operation of this redeploy as done."""
        full = self.operation(name)
        return any(
            one["operation"] == full and one["state"] == "succeeded" for one in self.recorded()
        )

    def operation(self, name: str) -> str:
        """Return the full name of an operation of the current phase."""
        return "/".join(part for part in (self.id, self.phase, name) if part)

    def do(
        self,
        step: str,
        verb: str,
        arguments: dict[str, Any],
        *,
        operation: str | None = None,
        deadline_seconds: float | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        secrets: Mapping[str, SecretStr] | None = None,
    ) -> dict[str, Any]:
        """Have one operation done on the host, once, and return its result.

        Args:
            step: the step it belongs to.
            verb: the supervisor's verb.
            arguments: the verb's arguments.
            operation: the operation's own name where a step has several; default: the step's.
            deadline_seconds: how long to wait for it; default: as `POLICIES` says of the step.
            on_progress: called with each progress that the host reports.
            secrets: variables for the operation's process alone; they are recorded nowhere.

        Raises:
            StepFailed: the operation failed, now or when it was first done.
        """
        if deadline_seconds is None:
            deadline_seconds = seconds_for(step, verb)
        try:
            outcome = self.supervisor.ensure(
                self.operation(operation or step),
                verb,
                arguments,
                holder=self.id,
                environment=self.service.environment,
                deadline_seconds=deadline_seconds,
                on_progress=on_progress,
                secrets=secrets,
            )
        except Refused as refused:
            raise StepFailed.of(step, refused) from refused
        return _result(step, outcome)

    @contextmanager
    def reached(self, address: str) -> Iterator[str]:
        """Give the URL by which the service is reached from here while the block runs.

        Args:
            address: the host's own address that it listens on.
        """
        with self.host.tunnel(self.service.port, address) as local_port:
            yield f"http://127.0.0.1:{local_port}"

    def log(self, message: str, level: int = logging.INFO) -> None:
        """Write one line into the run's log, in the name of the step under way."""
        step = f"{self.phase} {self.step}".strip().replace("-", " ")
        get_run_logger().log(level, "%s", message, extra={"step": step})

    def log_unexpected(self, error: Exception) -> None:
        """Write an error that is none of ours with its traceback, for whoever mends it."""
        if not isinstance(error, RedeployError):
            get_run_logger().debug("An unexpected error.", exc_info=error)

    @property
    def how_to_resume(self) -> str:
        """Return what a person can do when this run was cut off."""
        return f"Go on with Retry, or: redeploy resume {self.id}"

    def took(self, step: str, seconds: float, *, ok: bool) -> None:
        """Remember how long a step took, as the flow saw it, and whether it succeeded."""
        self.times.append(StepTime(phase=self.phase, step=step, seconds=seconds, ok=ok))


def _result(step: str, outcome: Outcome) -> dict[str, Any]:
    if outcome.error is None:
        return outcome.result or {}
    fields = dict(outcome.error)
    kind = str(fields.pop("kind", "failed"))
    message = str(fields.pop("message", "The operation failed."))
    raise StepFailed(step, kind, message, hint=str(fields.pop("hint", "")), **fields)
