"""Watches a start until the service serves or has died: `watch`, `hold`, `alive`.

That it serves is only believed of a socket that the unit itself listens on, and that nobody else
shares: another process on the port may answer for it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from blocks.supervisor import holders, ports, proc, scope, stacks, units
from blocks.supervisor.ends import Ends
from blocks.supervisor.facts import boot_id
from blocks.supervisor.failures import Failure
from blocks.supervisor.journal import Follower, last_lines
from blocks.supervisor.pace import Pace
from blocks.supervisor.trace import Reached, Trace
from blocks.supervisor.verdicts import verdict
from blocks.supervisor.vigil import Vigil
from blocks.supervisor.work import Work

_TICK_SECONDS = 0.25
_LONGEST_TICK_SECONDS = 0.5
_SETTLE_SECONDS = 1.0
_LAST_LINES_SECONDS = 0.1
_CATCH_UP_SECONDS = 0.3  # journald holds lines back for 0.25 s
_LOOKS_THAT_PROVE = 2
_TELL_SECONDS = 1.0
_LONGEST_TELL_SECONDS = 2.0
_OF_TIME_SPENT = 0.01


def watch(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Follow the unit's state, its lines, its port and what its processes use.

    Raises:
        Failure: It crashed, exited, is gone, has stalled, or passed a limit; another process
            listens in its place; the host was rebooted meanwhile; or systemd is silent for minutes.
    """
    with _following(arguments, work) as watched:
        return watched.until_over(Pace(arguments))


def hold(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """See that a service goes on as it is, for some seconds: no end, no restart too many.

    Raises:
        Failure: It ended, or was restarted; another process listens in its place; the host was
            rebooted meanwhile; or systemd is silent for minutes.
    """
    with _following(arguments, work) as watched:
        return watched.until_held(arguments["seconds"])


def alive(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return how a start has died, or None while it lives; where it listens, and who else does."""
    state = units.state(arguments["unit"])
    look = holders.PortLook(arguments["port"])
    found = look.look(state["control_group"], lambda: _argv(state["main_pid"]))
    return {
        "died": verdict(state, arguments["invocation"], arguments["restarts_tolerated"]),
        "address": next(iter(found.addresses), None),
        "others": found.others,
    }


@contextlib.contextmanager
def _following(arguments: dict[str, Any], work: Work) -> Iterator[_Watch]:
    if work.recall("boot") is None:
        work.note("boot", {"id": boot_id()})
    watched = _Watch(arguments, work)
    try:
        yield watched
    finally:
        watched.close()


class _Watch:
    def __init__(self, arguments: dict[str, Any], work: Work) -> None:
        self._unit = arguments["unit"]
        self._invocation = arguments["invocation"]
        self._started: float = arguments["started"]
        self._port = arguments["port"]
        self._tolerated = arguments["restarts_tolerated"]
        self._environment = arguments["environment"]
        self._lines = arguments["lines"]
        self._work = work
        self._trace = Trace(self._started, self._lines)
        self._ends = Ends()
        self._look = holders.PortLook(self._port)
        self._look_at = 0.0
        self._in_the_way = 0
        self._restarts_before: int | None = None
        self._told = ("", 0.0)
        later = self._tolerated > 0
        follower = Follower(self._unit, self._invocation, self._started, later=later)
        self._vigil = Vigil(self._unit, follower, self._hear)

    def until_over(self, pace: Pace) -> dict[str, Any]:
        with contextlib.closing(pace):
            while True:
                state = self._living()
                address = self._serves(state)
                if address is not None and self._vigil.is_sure():
                    return self._serving(address, pace)
                overdue = pace.overdue(self._trace.how, self._started, time.time())
                if overdue is not None:
                    raise self._held_up("hung", f"does not serve: {overdue}", state)
                if pace.look(self._trace.how, state):
                    why = pace.judgement.why if pace.judgement else ""
                    raise self._held_up("stalled", f"has stalled: {why}", state)
                self._tell(state, pace)
                due = min(self._look_at, pace.due)
                self._vigil.wait(max(0.0, due - time.monotonic()))

    def until_held(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        self._vigil.catch_up(_CATCH_UP_SECONDS)
        self._trace.serve(time.time())
        while True:
            state = self._living()
            self._listening(state)
            left = end - time.monotonic()
            if left <= 0 and not self._in_the_way and self._vigil.is_sure():
                return {"seconds": seconds, "restarts": state["n_restarts"]}
            self._vigil.wait(min(left, _TICK_SECONDS) if left > 0 else _TICK_SECONDS)

    def close(self) -> None:
        self._vigil.close()

    def _hear(self, entry: dict[str, Any]) -> None:
        self._trace.add(entry)
        self._ends.take(entry)

    def _living(self) -> dict[str, Any]:
        """Return the unit's state, if it lives."""
        state = self._state()
        if self._restarts_before is None:
            ours = state["invocation_id"] == self._invocation
            self._restarts_before = state["n_restarts"] if ours else 0
        died = verdict(state, self._invocation, self._tolerated)
        if died and self._rebooted():
            raise self._ended_by_reboot(state)
        if died:
            raise self._died(died, state)
        return state

    def _state(self) -> dict[str, Any]:
        try:
            return self._vigil.state()
        except Failure as silent:
            if not self._vigil.last:
                raise
            said = (silent.message, silent.hint)
            raise self._failure(silent.kind, self._vigil.last, *said) from silent

    def _rebooted(self) -> bool:
        """Tell whether this is another boot than that in which the watch was first begun."""
        noted = self._work.recall("boot")
        return noted is not None and noted["id"] != boot_id()

    def _serves(self, state: dict[str, Any]) -> str | None:
        """Return the address at which the unit serves, if it does and nobody else listens there."""
        if time.monotonic() < self._look_at:
            return None
        addresses = self._listening(state)
        self._look_at = time.monotonic() + self._pause(_TICK_SECONDS, _LONGEST_TICK_SECONDS)
        if self._in_the_way:
            return None
        return next((one for one in addresses if ports.healthy(one, self._port)), None)

    def _listening(self, state: dict[str, Any]) -> list[str]:
        """Return the addresses at which the unit is reached.

        Raises:
            Failure: Another process listens in its place, and did so at the last look as well.
        """
        found = self._look.look(state["control_group"], lambda: _argv(state["main_pid"]))
        self._in_the_way = self._in_the_way + 1 if found.others else 0
        if self._in_the_way >= _LOOKS_THAT_PROVE:
            raise self._taken(found.others, state)
        return found.addresses

    def _serving(self, address: str, pace: Pace) -> dict[str, Any]:
        now = time.time()
        self._vigil.catch_up(_CATCH_UP_SECONDS)
        self._vigil.ask_now()
        state = self._living()
        self._trace.serve(now)
        return {
            "stages": self._trace.stages(now),
            "seconds": self._trace.how.durations(now),
            "cache": self._trace.how.cache,
            "restarts": state["n_restarts"],
            "invocation": state["invocation_id"],
            "started": self._started,
            "listening_after_seconds": round(now - self._started, 3),
            "address": address,
            "slow": pace.slow,
        }

    def _ended_by_reboot(self, state: dict[str, Any]) -> Failure:
        lines = last_lines(self._unit, self._invocation, self._lines)
        sentence = f"The host was rebooted while {self._unit} started."
        return self._failure("rebooted", state, sentence, last_lines=lines)

    def _died(self, kind: str, state: dict[str, Any]) -> Failure:
        noticed = time.time()
        settled = time.monotonic() + _SETTLE_SECONDS
        launch = self._launch(state)
        while self._ends.after(launch).clean is None and time.monotonic() < settled:
            self._vigil.take(_LAST_LINES_SECONDS)
        with contextlib.suppress(Failure):
            state = units.state(self._unit)
        end = self._ends.after(launch)
        if kind == "crashed" and end.clean and end.exit_seen is None:
            kind = "exited"  # systemd had already started it again when we looked
        died_at = end.exit_seen or (end.clean and end.over) or state["exec_main_exited"] or noticed
        where = self._reached(state).where
        sentences = {
            "crashed": f"{self._unit} crashed {where}.",
            "exited": f"{self._unit} ended by itself with status 0 {where}.",
            "gone": f"{self._unit} is no longer known to systemd.",
        }
        return self._failure(
            kind,
            state,
            sentences[kind],
            died_at=round(min(died_at, noticed), 3),
            noticed_after_seconds=round(max(0.0, noticed - died_at), 3),
        )

    def _held_up(self, kind: str, why: str, state: dict[str, Any]) -> Failure:
        """Make the failure of a start that does not get on; its processes are left as they are."""
        found = stacks.held_up(state, self._environment)
        return self._failure(kind, state, f"{self._unit} {why}", **found)

    def _taken(self, others: list[holders.Holder], state: dict[str, Any]) -> Failure:
        return self._failure(
            "port-taken",
            state,
            f"{self._unit} cannot be told from another process: "
            f"{holders.sentence(self._port, others)}.",
            hint=f"See what it is (ss -ltnp 'sport = :{self._port}') and end it. "
            f"{self._unit} was left running.",
            holders=others,
        )

    def _launch(self, state: dict[str, Any]) -> int:
        """Return after how many restarts that launch came that this is about.

        It is the present one, unless systemd has already made one restart too many.
        """
        launches: int = min(state["n_restarts"], self._tolerated)
        return max(0, launches - (self._restarts_before or 0))

    def _reached(self, state: dict[str, Any]) -> Reached:
        return self._trace.reached(time.time(), self._launch(state))

    def _failure(
        self, kind: str, state: dict[str, Any], message: str, hint: str = "", **more: Any
    ) -> Failure:
        reached = self._reached(state)
        return Failure(
            kind,
            message,
            hint
            or scope.by_hand(
                "journalctl", "-u", self._unit, f"_SYSTEMD_INVOCATION_ID={self._invocation}"
            ),
            **{
                "last_stage": reached.stage,
                "last_lines": self._trace.last_lines(),
                "unit": state,
                "died_at": None,
                "noticed_after_seconds": None,
                "stages": reached.stages,
                **more,
            },
        )

    def _pause(self, least: float, most: float) -> float:
        """Return how long to wait before the next look: the longer it has taken, the longer."""
        return min(most, max(least, (time.time() - self._started) * _OF_TIME_SPENT))

    def _tell(self, state: dict[str, Any], pace: Pace) -> None:
        now = time.time()
        stage, at = self._told
        same = stage == self._trace.how.stage
        if same and now - at < self._pause(_TELL_SECONDS, _LONGEST_TELL_SECONDS):
            return
        self._told = (self._trace.how.stage, now)
        self._work.progress(
            **self._trace.progress(now), restarts=state["n_restarts"], **pace.told()
        )


def _argv(pid: int | None) -> list[str]:
    return [] if pid is None else proc.argv(pid)
