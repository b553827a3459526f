"""The program: a verb, one JSON object in, one JSON object out."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any, Callable

from blocks.supervisor import (
    arguments,
    foreign,
    guard_unit,
    holds,
    lingering,
    releases,
    scope,
    store,
    transactions,
)
from blocks.supervisor.failures import Refusal, Told
from blocks.supervisor.guard_unit import GUARD
from blocks.supervisor.launcher import EXECUTE, Launcher, SystemdLauncher
from blocks.supervisor.ledger import Ledger
from blocks.supervisor.locks import Locks
from blocks.supervisor.operations import Operations
from blocks.supervisor.store import Store
from blocks.supervisor.work import Doer, Work

REFUSED_EXIT = 2
ROLLBACK = "rollback"
"""The verb of a person who goes back by hand."""
_LARGEST_REQUEST = 32 << 20
READERS = {
    "facts": "facts.facts",
    "journal": "journal.journal",
    "alive": "watch.alive",
    "probe": "probe.probe",
}
DOERS = {
    "facts": "facts.facts",
    "journal": "journal.journal",
    "stop": "start.stop",
    "open": "opening.open_transaction",
    "resolve": "packages.resolve",
    "stage": "packages.stage",
    "verify": "verify.verify",
    "cleanup": "cleanup.cleanup",
    "switch": "switch.switch",
    "start": "start.start",
    "swap": "swap.swap",
    "watch": "watch.watch",
    "hold": "watch.hold",
    "install": "packages.install",
    "uninstall": "packages.uninstall",
    "fetch-kernels": "kernels.fetch",
    "drop-in": "drop_ins.add",
    "end-left-overs": "left_overs.end",
    "set-aside": "caches.set_aside",
    "benchmark": "benchmark.benchmark",
    "discard": "discard.discard",
    "prune": "discard.prune",
    "revert": "revert.revert",
}
"""Where a verb is: its module and its function. Most calls only wait, and need none of them."""


class Supervisor:
    """The verbs of one host."""

    def __init__(self, kept: Store, launcher: Launcher) -> None:
        self._store = kept
        self.operations = Operations(kept, launcher)
        self.locks = Locks(kept, self._at_work, self._half_done)
        self.doers: dict[str, Doer] = {
            "remember": _remember,
            "record": lambda asked, work: releases.recorder(kept)(asked, work),
            **{verb: _loaded_when_called(where) for verb, where in DOERS.items()},
        }
        self._readers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "version": _version,
            **{verb: _loaded_when_called(where) for verb, where in READERS.items()},
            "operations": lambda asked: {"operations": self.operations.under(asked["prefix"])},
            "recorded": lambda asked: {"answer": self.operations.recorded(asked["operation"])},
            "status": self._status,
            "history": lambda asked: {
                "releases": releases.history(kept, asked["environment"]),
            },
            "keep": lambda asked: holds.keep(kept, asked),
            "unkeep": lambda asked: holds.unkeep(kept, asked),
            "lock": self._lock,
            "unlock": self._unlock,
        }

    def answer(
        self,
        verb: str,
        request: Any,
        tell: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Check a request and answer it; progress is told meanwhile, on standard output or to one.

        Raises:
            Refusal: It is not one of ours; nothing was changed.
        """
        checked = arguments.checked(verb, request, arguments.READING)
        if verb == "ensure":
            return self._ensure(checked, tell or _tell)
        return self._readers[verb](checked)

    def _ensure(
        self, asked: dict[str, Any], tell: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        checked = arguments.checked(asked["verb"], asked["arguments"], arguments.DOING)
        arguments.check_together(asked["environment"], checked)
        self.locks.renew(asked["environment"], asked["holder"])
        asked = {**asked, "arguments": checked}
        if asked["verb"] in transactions.STOPS:
            self._may_stop(asked)
        return self.operations.ensure(asked, tell)

    def _may_stop(self, asked: dict[str, Any]) -> None:
        """Before the first stop of a redeploy: have room and the guard for the way back."""
        if asked["verb"] == "swap" and not self.operations.recorded(asked["operation"]):
            transactions.require_staged(asked["arguments"])
        if not self._half_done(asked["holder"]):
            self._store.keep_reserve()
        if asked["verb"] != transactions.REVERT:
            done = self.operations.under(asked["holder"])
            transactions.require_guard(self._store.root, asked, done)

    def _status(self, asked: dict[str, Any]) -> dict[str, Any]:
        environment = asked["environment"]
        folders = Ledger(self._store.root, environment).look() if environment else []
        if folders:
            from blocks.supervisor import seal  # only here: most calls do without

            for one in folders:
                one["as_recorded"] = seal.holds(one.get("seal"), Path(one["path"]))
        recorded = releases.history(self._store, environment)
        return {
            "locks": self.locks.all(environment),
            "running": [
                one
                for one in self.operations.running()
                if environment in (None, one["environment"])
            ],
            "last_release": recorded[0] if recorded else None,
            "folders": folders,
            "hold": environment and holds.now(self._store.root, environment),
        }

    def _lock(self, asked: dict[str, Any]) -> dict[str, Any]:
        lingering.require()
        return self.locks.take(asked)

    def _unlock(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Give the lock back; what has come to an end, or never began, is guarded no longer."""
        holder, environment = asked["holder"], asked["environment"]
        if transactions.has_ended(
            done := self.operations.under(holder)
        ) or not transactions.has_stopped(done):
            transactions.close(self._store.root, environment, holder)
        return self.locks.give_back(environment, holder)

    def guard(self, key: str) -> None:
        """Watch over what is undertaken on an environment until it has come to its end."""
        from blocks.supervisor.guard import Guard

        guard = Guard(self._store, self.operations, self.locks, key)
        guard_unit.tell_at_work()
        guard.stand()

    def _at_work(self, holder: str) -> bool:
        return any(one["holder"] == holder for one in self.operations.running())

    def _half_done(self, holder: str) -> bool:
        done = self.operations.under(holder)
        return not transactions.has_ended(done) and (
            transactions.has_stopped(done) or transactions.is_drained(done)
        )


def _loaded_when_called(where: str) -> Callable[..., dict[str, Any]]:
    module, function = where.split(".")

    def call(*given: Any) -> dict[str, Any]:
        loaded = importlib.import_module(f"blocks.supervisor.{module}")
        answer: dict[str, Any] = getattr(loaded, function)(*given)
        return answer

    return call


def main(argv: list[str]) -> int:
    """Answer one call; return the exit status."""
    try:
        argv = scope.choose(argv)
        os.umask(0o077)
        supervisor = Supervisor(Store(scope.now().state), SystemdLauncher())
        if len(argv) == 2 and argv[0] == EXECUTE:
            supervisor.operations.execute(argv[1], supervisor.doers)
            return 0
        if len(argv) == 2 and argv[0] == GUARD:
            supervisor.guard(argv[1])
            return 0
        if argv and argv[0] == ROLLBACK:
            return _by_hand(supervisor, argv[1:])
        if not argv:
            raise _usage("No verb was given")
        arguments.require_verb(argv[0], {*arguments.READING, ROLLBACK})
        if len(argv) > 1:
            raise _usage(f"{argv[0]} takes no words after it, and {argv[1][:80]!r} is one")
        answer = supervisor.answer(argv[0], _request())
    except Refusal as refusal:
        _print({"error": refusal.document()})
        return REFUSED_EXIT
    except Told as told:
        _print({"error": told.document()})
        return 1
    except OSError as error:
        _print({"error": store.told(error, scope.now().state).document()})
        return 1
    _print(answer)
    return 0


def _usage(wrong: str) -> Refusal:
    return Refusal(
        "usage",
        f"{wrong}. Nothing was changed.",
        "A person goes back by: redeploy-supervisor rollback [UNIT]. "
        "A program calls: redeploy-supervisor VERB <request.json",
    )


def _by_hand(supervisor: Supervisor, words: list[str]) -> int:
    """Roll back for a person; tell how it gets on and how it ended."""
    from blocks.supervisor import by_hand

    def ask(verb: str, request: dict[str, Any]) -> dict[str, Any]:
        return supervisor.answer(verb, request, _tell_a_person)

    try:
        verdict = by_hand.roll_back(scope.now().state, words, ask)
    except Told as told:
        sys.stderr.write(f"{told.message} {told.hint}\n")
        return REFUSED_EXIT if isinstance(told, Refusal) else 1
    sys.stdout.write(f"{verdict}\n")
    return 0 if not verdict.startswith("DOWN") else 1


def _tell_a_person(progress: dict[str, Any]) -> None:
    says = progress.get("says") or progress.get("stage")
    sys.stderr.write(f"{foreign.safe(str(says))}\n")


def _request() -> Any:
    raw = sys.stdin.buffer.read(_LARGEST_REQUEST + 1)
    if len(raw) > _LARGEST_REQUEST:
        raise Refusal("too-large", "The request is larger than 32 MiB.", "Ask for less at once.")
    try:
        return json.loads(raw or b"{}")
    except ValueError as error:
        with contextlib.suppress(ValueError):  # sudo leaves a password that it did not ask for
            return json.loads(raw.partition(b"\n")[2])
        raise Refusal("not-json", f"The request is not JSON: {error}.", "Send JSON.") from None


def _print(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(foreign.all_clean(answer)) + "\n")
    sys.stdout.flush()


def _tell(progress: dict[str, Any]) -> None:
    """Print a progress before the answer, on a line of its own; without a reader it is lost."""
    with contextlib.suppress(OSError):
        _print({"progress": progress})


def _version(asked: dict[str, Any]) -> dict[str, Any]:
    del asked
    program = Path(sys.argv[0])
    digest = hashlib.sha256(program.read_bytes()).hexdigest() if program.is_file() else "source"
    return {"version": digest, "python": platform.python_version()}


def _remember(asked: dict[str, Any], work: Work) -> dict[str, Any]:
    del work
    return {"document": asked["document"]}
