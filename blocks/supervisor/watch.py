"""Watches a start until the service serves or has died: `watch`.

That it serves is only believed of a socket that the unit itself listens on: after a failed bind,
some other process answers on the port.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from blocks.supervisor import cgroups, ports, units
from blocks.supervisor.facts import boot_id
from blocks.supervisor.failures import Failure
from blocks.supervisor.journal import Follower, last_lines
from blocks.supervisor.trace import Trace
from blocks.supervisor.work import Work

_TICK_SECONDS = 0.25
_SETTLE_SECONDS = 1.0
_PROCESS_EXIT = "98e322203f7a4ed290d09fe03c09fe15"
_UNIT_FAILED = "d9b373ed55a64feb8242e02dbe79a49c"
_UNIT_SUCCEEDED = "7ad2d189f7e94e70a38c781354912448"
_OVER = (_UNIT_FAILED, _UNIT_SUCCEEDED)
_EXITED = 1


def verdict(state: dict[str, Any], invocation: str) -> str | None:
    """Return how a start has died by what systemd says now, or None while it lives."""
    if state["load_state"] != "loaded":
        return "gone"
    clean = (
        state["result"] == "success"
        and state["exec_main_code"] == _EXITED
        and state["exec_main_status"] == 0
    )
    if state["invocation_id"] != invocation or state["n_restarts"] > 0:
        return "crashed"
    if state["active_state"] == "failed":
        return "crashed"
    if state["sub_state"] == "auto-restart" or state["active_state"] == "inactive":
        return "exited" if clean else "crashed"
    return None


def watch(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Follow the unit's state, its lines and its port.

    Raises:
        Failure: It crashed, exited, is gone, or had not come to serve by the deadline; or the host
            was rebooted meanwhile.
    """
    with _following(arguments, work) as watched:
        return watched.until_over()


def hold(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """See that a service goes on as it is, for some seconds: no end, no restart.

    Raises:
        Failure: It ended, or was restarted; or the host was rebooted meanwhile.
    """
    with _following(arguments, work) as watched:
        return watched.until_held(arguments["seconds"])


def alive(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return how a start has died, or None while it lives, and the address it listens on."""
    state = units.state(arguments["unit"])
    return {
        "died": verdict(state, arguments["invocation"]),
        "address": next(iter(_addresses(state, ports.listeners(arguments["port"]))), None),
    }


def _addresses(state: dict[str, Any], found: list[ports.Listener]) -> list[str]:
    """Return the addresses on which the unit itself listens, of those on which anybody does."""
    if not found or not state["control_group"]:
        return []
    return ports.addresses(cgroups.members(state["control_group"]), found)


@contextlib.contextmanager
def _following(arguments: dict[str, Any], work: Work) -> Iterator[_Watch]:
    if work.recall("boot") is None:
        work.note("boot", {"id": boot_id()})
    follower = Follower(arguments["unit"], arguments["invocation"], arguments["started"])
    try:
        yield _Watch(arguments, follower, work)
    finally:
        follower.close()


class _Watch:
    def __init__(self, arguments: dict[str, Any], follower: Follower, work: Work) -> None:
        self._unit = arguments["unit"]
        self._invocation = arguments["invocation"]
        self._started = arguments["started"]
        self._port = arguments["port"]
        self._deadline = self._started + arguments["deadline_seconds"]
        self._follower = follower
        self._work = work
        self._lines = arguments["lines"]
        self._trace = Trace(self._started, self._lines)
        self._exit_seen: float | None = None
        self._over_as: str | None = None
        self._in_the_way = ""
        self._address: str | None = None

    def until_over(self) -> dict[str, Any]:
        while True:
            state = self._look()
            if self._serves(state):
                return self._serving()
            if time.time() >= self._deadline:
                raise self._failure("hung", state, self._sentence_hung())
            self._tell(state)

    def until_held(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        self._look()
        while time.monotonic() < end:
            self._look()
        return {"seconds": seconds}

    def _look(self) -> dict[str, Any]:
        """Take in what is new and return the unit's state, if it lives."""
        self._read(_TICK_SECONDS)
        state = units.state(self._unit)
        died = verdict(state, self._invocation)
        if died and self._rebooted():
            raise self._ended_by_reboot(state)
        if died:
            raise self._died(died, state)
        return state

    def _rebooted(self) -> bool:
        """Tell whether this is another boot than that in which the watch was first begun."""
        noted = self._work.recall("boot")
        return noted is not None and noted["id"] != boot_id()

    def _read(self, seconds: float) -> None:
        """Take in the lines that come; always use up the time, so that we do not spin."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for entry in self._follower.lines(left):
                self._trace.add(entry["time"], entry["message"])
                if entry["message_id"] == _PROCESS_EXIT and entry["pid"] == 1:
                    self._exit_seen = entry["time"]
                if entry["message_id"] in _OVER and entry["pid"] == 1:
                    self._over_as = entry["message_id"]

    def _serves(self, state: dict[str, Any]) -> bool:
        found = ports.listeners(self._port)
        addresses = _addresses(state, found)
        held = found and not addresses
        self._in_the_way = f"port {self._port} is held by another process" if held else ""
        healthy = (one for one in addresses if ports.healthy(one, self._port))
        self._address = next(healthy, None)
        return self._address is not None

    def _serving(self) -> dict[str, Any]:
        now = time.time()
        self._read(_TICK_SECONDS)
        self._trace.serve(now)
        return {
            "stages": self._trace.stages(now),
            "listening_after_seconds": round(now - self._started, 3),
            "address": self._address,
        }

    def _ended_by_reboot(self, state: dict[str, Any]) -> Failure:
        lines = last_lines(self._unit, self._invocation, self._lines)
        sentence = f"The host was rebooted while {self._unit} started."
        return self._failure("rebooted", state, sentence, last_lines=lines)

    def _died(self, kind: str, state: dict[str, Any]) -> Failure:
        noticed = time.time()
        settled = time.monotonic() + _SETTLE_SECONDS
        while self._over_as is None and time.monotonic() < settled:
            self._read(0.1)
        with contextlib.suppress(Failure):
            state = units.state(self._unit)
        if kind == "crashed" and self._over_as == _UNIT_SUCCEEDED and self._exit_seen is None:
            kind = "exited"  # systemd had already started it again when we looked
        died_at = self._exit_seen or state["exec_main_exited"] or noticed
        sentences = {
            "crashed": f"{self._unit} crashed {self._where()}.",
            "exited": f"{self._unit} ended by itself with status 0 {self._where()}.",
            "gone": f"{self._unit} is no longer known to systemd.",
        }
        return self._failure(
            kind,
            state,
            sentences[kind],
            died_at=round(min(died_at, noticed), 3),
            noticed_after_seconds=round(max(0.0, noticed - died_at), 3),
        )

    def _failure(self, kind: str, state: dict[str, Any], message: str, **more: Any) -> Failure:
        return Failure(
            kind,
            message,
            f"journalctl -u {self._unit} _SYSTEMD_INVOCATION_ID={self._invocation}",
            **{
                "last_stage": self._trace.stage,
                "last_lines": self._trace.last_lines(),
                "unit": state,
                "died_at": None,
                "noticed_after_seconds": None,
                "stages": self._trace.stages(time.time()),
                **more,
            },
        )

    def _sentence_hung(self) -> str:
        spent = time.time() - self._started
        more = f" ({self._in_the_way})" if self._in_the_way else ""
        return f"{self._unit} does not serve after {spent:.0f} s {self._where()}{more}."

    def _where(self) -> str:
        if self._trace.stage is None:
            return "before vLLM spoke"
        percent = "" if self._trace.percent is None else f" at {self._trace.percent:.0f}%"
        return f"in stage {self._trace.stage!r}{percent}"

    def _tell(self, state: dict[str, Any]) -> None:
        progress = self._trace.progress(time.time())
        if self._in_the_way:
            progress["detail"] = self._in_the_way
        self._work.progress(**progress, n_restarts=state["n_restarts"])
