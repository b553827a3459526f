"""A service that is used: whether it lives, answers, and gets on with its work."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any

from blocks.supervisor import cgroups, ports, scope, stacks, talk, units
from blocks.supervisor.failures import Failure
from blocks.supervisor.journal import last_lines
from blocks.supervisor.verdicts import verdict
from tasks.startup.stages import READY

ANSWER_SECONDS = 10.0
_METRICS_SECONDS = 1.0
_LINGERS_SECONDS = 8.0
_POLL_SECONDS = 0.25
_LAST_LINES = 80
_WORK_DONE = re.compile(
    rb"^vllm:(?:request_success|generation_tokens)_total(?:\{[^}\n]*\})? ([\d.eE+]+)\s*$",
    re.MULTILINE,
)
_OK = 200


class Served:
    """A unit that serves a model.

    Args:
        unit: Its name.
        port: The port it serves on.
        model: The model's name in its API.
        key: The key of its API, if it wants one.
        environment: The environment it runs from.
    """

    def __init__(
        self, unit: str, port: int, model: str, key: str | None, environment: str | None = None
    ) -> None:
        self._environment = environment
        self._unit, self._port, self._model, self._key = unit, port, model, key
        state = units.state(unit)
        self._invocation = state["invocation_id"]
        self._restarts = state["n_restarts"]
        pids = cgroups.members(state["control_group"]) if state["control_group"] else set()
        self.address = (ports.addresses(pids, ports.listeners(port)) or ["127.0.0.1"])[0]

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://{talk.authority(self.address, self._port)}"

    def death(self) -> Failure | None:
        """Return the service's death as a failure, if it has died."""
        with contextlib.suppress(Failure):
            state = units.state(self._unit)
            since = {**state, "n_restarts": state["n_restarts"] - self._restarts}
            kind = verdict(since, self._invocation)
            if kind is not None:
                died = state["exec_main_exited"]
                sentence = f"{self._unit} died while it was measured."
                late = None if died is None else round(max(0.0, time.time() - died), 3)
                return self._failure(kind, sentence, state, died, late)
        return None

    def hung(self) -> Failure | None:
        """Return a failure if the service does not answer: its death, or that it hangs.

        An API server outlives its engine for some seconds, and a busy one lets us wait: a hung one
        gives nothing to anybody.
        """
        before = self.work_done()
        began = time.monotonic()
        answer = talk.completion(self.address, self._port, self._model, self._key, ANSWER_SECONDS)
        if answer is not None and answer.status == _OK:
            return None
        at_once = time.monotonic() - began < ANSWER_SECONDS - 1
        died = self._death_within(_LINGERS_SECONDS if at_once else 0.0)
        if died is not None or answer is not None or self.work_done() != before:
            return died
        sentence = f"{self._unit} does not answer a completion of one token."
        state = units.state(self._unit)
        failure = self._failure("hung", sentence, state, None, None)
        failure.fields.update(stacks.held_up(state, self._environment))
        return failure

    def work_done(self) -> float | None:
        """Return a number that grows while it works, if it tells one."""
        return work_done(self.address, self._port)

    def _death_within(self, seconds: float) -> Failure | None:
        deadline = time.monotonic() + seconds
        while (died := self.death()) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return died

    def _failure(
        self,
        kind: str,
        sentence: str,
        state: dict[str, Any],
        died: float | None,
        late: float | None,
    ) -> Failure:
        return Failure(
            kind,
            sentence,
            scope.by_hand(
                "journalctl", "-u", self._unit, f"_SYSTEMD_INVOCATION_ID={self._invocation}"
            ),
            last_stage=READY,
            last_lines=last_lines(self._unit, self._invocation, _LAST_LINES),
            unit=state,
            died_at=died,
            noticed_after_seconds=late,
            stages=[],
            invocation=self._invocation,
        )


def work_done(address: str, port: int, seconds: float = _METRICS_SECONDS) -> float | None:
    """Return a number that grows while a service works, if it tells one within some seconds."""
    answer = talk.get(address, port, "/metrics", seconds)
    found = _WORK_DONE.findall(answer.body) if answer else []
    return sum(map(_number, found)) if found else None


def gets_on(address: str, port: int) -> bool:
    """Tell whether a service is seen to work within some seconds."""
    before: float | None = None
    deadline = time.monotonic() + ANSWER_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        now = work_done(address, port, left)
        if before is not None and now is not None and now > before:
            return True
        before = now if before is None else before
        time.sleep(_POLL_SECONDS)
    return False


def _number(raw: bytes) -> float:
    with contextlib.suppress(ValueError):
        return float(raw)
    return 0.0
