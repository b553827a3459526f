"""Operations: done once, whoever asks and however often, and remembered."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

from blocks.supervisor import foreign, proc, processes, scope, store, transactions
from blocks.supervisor.arguments import ANSWER_STANDS
from blocks.supervisor.failures import Failure, Refusal, Told
from blocks.supervisor.handover import Handover
from blocks.supervisor.launcher import EXECUTE, Launcher
from blocks.supervisor.pidfd import Process
from blocks.supervisor.secrets import never_tell
from blocks.supervisor.work import Doer, Work

_POLL_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_BEGIN_AGAIN_SECONDS = 1.0
MOST_TRIES = 5
"""An operation that was killed so often is not tried again: it may be what kills the host."""


class Operations:
    """The operations of one host."""

    def __init__(
        self, kept: store.Store, launcher: Launcher, handover: Handover | None = None
    ) -> None:
        self._store = kept
        self._launcher = launcher
        self._handover = handover or Handover()

    def ensure(
        self, asked: dict[str, Any], tell: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        """Start an operation unless it was started before; return its state.

        Given the checked request (its `secrets` are handed to the run that it starts, and written
        down nowhere), return the recorded answer of a finished one, else wait up to
        `wait_seconds` for it and return what there is then. Meanwhile each new progress is told,
        at most every `tell_seconds`, where that is given.

        Raises:
            Refusal: The name stands for something else, or systemd would not start it.
        """
        name = asked["operation"]
        attached = not self._begin(asked)
        told = _Told(self._folder(name) / "progress.json", asked["tell_seconds"], tell)
        self._wait(asked, told)
        return {**self.answer(name), "attached": attached}

    def execute(self, name: str, doers: Mapping[str, Doer]) -> None:
        """Carry out an operation that was begun, here and now, and record how it ended."""
        folder = self._folder(name)
        with store.guarded(folder / "executing", wait=False) as mine:
            request = store.read(folder / "request.json")
            if not mine or request is None or self._result_path(name).exists():
                return
            store.write(folder / "process.json", {"pid": os.getpid()}, durable=False)
            handed = self._handover.take(name)
            never_tell(handed.values())
            output = folder / "output.log"
            store.with_room(lambda: processes.own_output_to(os.fspath(output)))
            began = time.time()
            work = Work(folder, handed, self._store.root, request["holder"])
            places = (self._store.root, Path(request["environment"]))
            outcome = _carry_out(doers[request["verb"]], request["arguments"], work, places)
            self._finish(request, began, outcome)

    def unfinished(self) -> list[dict[str, Any]]:
        """Return the requests of the operations that have no result yet."""
        return [one for one in self._requests(self._store.operations, finished=False) if one]

    def running(self) -> list[dict[str, Any]]:
        """Return the operations that run now, with their progress."""
        return [
            {
                **{key: one[key] for key in ("operation", "verb", "holder", "environment")},
                "started": one["started"],
                "progress": store.read(self._folder(one["operation"]) / "progress.json"),
            }
            for one in self.unfinished()
            if self._runs(one["operation"])
        ]

    def under(self, prefix: str) -> list[dict[str, Any]]:
        """Return the operations at and below a name, in the order of their first start."""
        found = [self._summary(one) for one in self._requests(self._folder(prefix)) if one]
        return sorted(found, key=lambda one: float(one["started"]))

    def _summary(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["operation"]
        answer = self.answer(name)
        state = answer["state"]
        if state == "running" and not self._runs(name):
            state = "interrupted"
        return {
            **{key: answer[key] for key in ("operation", "verb", "started", "finished", "seconds")},
            "state": state,
            "tries": request["tries"],
            "error_kind": answer["error"]["kind"] if answer["error"] else None,
        }

    def _wait(self, asked: dict[str, Any], told: _Told) -> None:
        """Wait for the result; a run that is killed meanwhile is followed by another one."""
        name = asked["operation"]
        result = self._result_path(name)
        until = time.monotonic() + asked["wait_seconds"]
        begin_at = time.monotonic() + _BEGIN_AGAIN_SECONDS
        executor = Process(None)
        while not result.exists() and (left := until - time.monotonic()) > 0:
            if executor.pid is None:
                if time.monotonic() > begin_at:
                    self._begin(asked)
                    begin_at = time.monotonic() + _BEGIN_AGAIN_SECONDS
                executor = self._executor(name)
            tick = _POLL_SECONDS if executor.pid is None else _PROGRESS_SECONDS
            if executor.wait(min(tick, left)):
                executor.close()
                executor = Process(None)
            told.look()
        executor.close()

    def _executor(self, name: str) -> Process:
        """Return the process that carries an operation out, or none."""
        noted = store.read(self._folder(name) / "process.json")
        if noted is not None:
            found = Process(noted["pid"])
            if self._is_seen_at_work(name) and not found.ended:
                return found
            found.close()
        return Process(None)

    def _begin(self, asked: dict[str, Any]) -> bool:
        """Start the operation if it is unknown or its run was killed; tell whether it was."""
        name = asked["operation"]
        folder = self._folder(name)
        with store.guarded(folder / "guard"):
            request = store.read(folder / "request.json")
            if request is not None:
                _require_the_same(request, asked)
            # The unit is asked first: it writes its result before it ends.
            if request is not None and (self._runs(name) or self._result_path(name).exists()):
                return False
            with transactions.gate(self._store.root, asked, self.under):
                self._end_others(asked)
                return self._start(asked, request)

    def _end_others(self, asked: dict[str, Any]) -> None:
        """Before it goes back or is given up: end what runs of it; it is not begun again."""
        if asked["verb"] in transactions.ENDS_OTHERS:
            for one in self.under(asked["holder"]):
                if one["state"] == "running" and one["operation"] != asked["operation"]:
                    self._launcher.end(one["operation"])

    def _runs(self, name: str) -> bool:
        return self._is_seen_at_work(name) or self._launcher.running(name)

    def _is_seen_at_work(self, name: str) -> bool:
        """Tell whether the process is there that carries an operation out.

        Cheaper than to ask systemd, which is asked where it is not, or is not seen to be the one.
        """
        noted = store.read(self._folder(name) / "process.json")
        return noted is not None and proc.argv(noted["pid"])[-2:] == [EXECUTE, name]

    def _start(self, asked: dict[str, Any], before: dict[str, Any] | None) -> bool:
        tries = 1 if before is None else int(before["tries"]) + 1
        if before is not None:
            self._log("interrupted", before)
            if tries > MOST_TRIES:
                self._launcher.forget(before["operation"])
                self._handover.drop(before["operation"])
                self._finish(before, time.time(), _given_up(tries - 1))
                return False
        keys = ("operation", "verb", "holder", "environment", "arguments")
        request = before or {**{key: asked[key] for key in keys}, "started": time.time()}
        request = {**request, "tries": tries}
        store.write(self._folder(asked["operation"]) / "request.json", request)
        self._log("started", request)
        self._handover.put(asked["operation"], asked.get("secrets", {}))
        try:
            self._launcher.start(asked["operation"])
        except Refusal:
            self._handover.drop(asked["operation"])
            raise
        return True

    def _finish(self, request: dict[str, Any], began: float, outcome: dict[str, Any]) -> None:
        finished = time.time()
        result = {"finished": finished, "seconds": round(finished - began, 3), **outcome}
        store.write(self._result_path(request["operation"]), result)
        error = outcome["error"]
        event = "failed" if error else "finished"
        more = {"error": {key: error[key] for key in ("kind", "message")}} if error else {}
        self._log(event, request, seconds=result["seconds"], **more)

    def _log(self, event: str, request: dict[str, Any], **more: Any) -> None:
        self._store.log(
            event, **{key: request[key] for key in ("operation", "verb", "holder")}, **more
        )

    def recorded(self, name: str) -> dict[str, Any] | None:
        """Return the state of an operation, and its result or progress; None: it is unknown."""
        return self.answer(name) if (self._folder(name) / "request.json").exists() else None

    def answer(self, name: str) -> dict[str, Any]:
        """Return the state of a known operation, and its result or progress."""
        folder = self._folder(name)
        request = store.read(folder / "request.json") or {}
        result = store.read(folder / "result.json")
        return {
            "operation": name,
            "verb": request["verb"],
            "started": request["started"],
            "progress": None if result else store.read(folder / "progress.json"),
            **(result or {"state": "running", **dict.fromkeys(_RESULT_KEYS)}),
        }

    def _folder(self, name: str) -> Path:
        return self._store.operations / name

    def _result_path(self, name: str) -> Path:
        return self._folder(name) / "result.json"

    def _requests(self, folder: Path, *, finished: bool = True) -> Iterator[dict[str, Any] | None]:
        """Yield the requests at and below a folder; those of finished ones are read if wanted."""
        for parent, _, files in os.walk(folder):
            if "request.json" in files and (finished or "result.json" not in files):
                yield store.read(Path(parent, "request.json"))


class _Told:
    """Tells the progress of an operation whenever it is another one than before."""

    def __init__(
        self, path: Path, every: float | None, tell: Callable[[dict[str, Any]], None]
    ) -> None:
        self._path, self._every, self._tell = path, every, tell
        self._seen: tuple[int, int] | None = None
        self._due = 0.0

    def look(self) -> None:
        if self._every is None or time.monotonic() < self._due:
            return
        with contextlib.suppress(OSError):
            found = self._path.stat()
            if (found.st_ino, found.st_mtime_ns) != self._seen:
                self._seen = (found.st_ino, found.st_mtime_ns)
                self._tell(store.read(self._path) or {})
                self._due = time.monotonic() + self._every


_RESULT_KEYS = ("finished", "seconds", "result", "error")


def _require_the_same(known: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to answer for an operation that something else was asked of under its name."""
    name, verb = known["operation"], known["verb"]
    if verb != asked["verb"]:
        raise Refusal(
            "other-verb",
            f"The operation {name} is known, as {verb}, not {asked['verb']}.",
            "Use another name for another operation.",
        )
    if ANSWER_STANDS.get(verb, False):
        return
    before, now = known["arguments"], asked["arguments"]
    # An argument that only one of them has came or went with a version of this program.
    differs = [key for key in sorted(before.keys() & now.keys()) if before[key] != now[key]]
    if known["environment"] != asked["environment"]:
        differs.insert(0, "environment")
    if differs:
        raise Refusal(
            "other-operation",
            f"The operation {name} is known, with another {', '.join(dict.fromkeys(differs))}.",
            "Use another name for another operation, or ask for what was asked for first.",
            differs=list(dict.fromkeys(differs)),
        )


def _carry_out(
    doer: Doer, arguments: dict[str, Any], work: Work, places: tuple[Path, ...]
) -> dict[str, Any]:
    try:
        result = foreign.all_clean(doer(arguments, work))
        return {"state": "succeeded", "result": result, "error": None}
    except Told as told:
        error = told.document()
    except Exception as unexpected:  # whatever happens has to be recorded
        processes.say(foreign.safe(traceback.format_exc()))
        error = _unexpected(unexpected, places).document()
    processes.say(f"failed: {error['kind']}: {error['message']}")
    return {"state": "failed", "result": None, "error": error}


def _unexpected(error: Exception, places: tuple[Path, ...]) -> Failure:
    if isinstance(error, OSError) and store.is_full(error):
        return store.told(error, *places)
    return Failure(
        "unexpected",
        f"The supervisor itself failed: {type(error).__name__}: {error}"[:2000],
        "This is a fault of the supervisor; output.log of the operation has the traceback.",
    )


def _given_up(tries: int) -> dict[str, Any]:
    error = Failure(
        "interrupted",
        f"The operation was killed {tries} times before it had finished.",
        f"Look for what kills it ({scope.by_hand('journalctl', '-u')} 'redeploy-op-*'), "
        "then use another name.",
    )
    return {"state": "failed", "result": None, "error": error.document()}
