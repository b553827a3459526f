"""A person's way back on the host itself, with no controller: `rollback`.

What is under way is taken back; else the environment goes back to the release before the live one.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Callable

from blocks.supervisor import environment, scope, transactions
from blocks.supervisor.failures import Refusal
from blocks.supervisor.ledger import PREVIOUS, Ledger

_NAME = "rollback"
_LEASE_SECONDS = 900
_TELL_SECONDS = 2.0

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Asks the supervisor, as a controller does: a verb and its request in, the answer out."""


def roll_back(root: Path, words: list[str], ask: Ask) -> str:
    """Take a service back and return how it ended, in a sentence.

    Args:
        root: The state folder.
        words: The unit or the environment, where the host has several.
        ask: Asks the supervisor.

    Raises:
        Refusal: It is not clear what to take back, or there is nothing, or somebody is at work.
        Failure: The old release did not come up; the service is down.
    """
    undertaken = _chosen(transactions.known(root), words)
    if not undertaken["open"]:
        undertaken = _undertake(root, undertaken, ask)
    holder, path = undertaken["holder"], undertaken["environment"]
    _say(f"{undertaken['unit']} goes back; this is the operation {holder}/revert.")
    answer = _ensure(ask, undertaken, transactions.REVERT, {"environment": path})
    record = _record(undertaken, answer)
    _ensure(ask, undertaken, "record", {"record": record})
    ask("unlock", {"environment": path, "holder": holder})
    return str(record["verdict"])


def _chosen(known: list[dict[str, Any]], words: list[str]) -> dict[str, Any]:
    named = {name for word in words for name in (word, f"{word}.service")}
    found = [one for one in known if not words or named & {one["unit"], one["environment"]}]
    if len(words) < 2 and len(found) == 1:
        return found[0]
    names = ", ".join(f"{one['unit']} ({one['environment']})" for one in known) or "none"
    wrong = "One service is to be named"
    if len(words) == 1 and not found:
        wrong = f"Nothing that was ever redeployed here is called {words[0]!r}"
    raise Refusal(
        "which",
        f"{wrong}; known here: {names}. Nothing was changed.",
        "redeploy-supervisor rollback UNIT",
    )


def _undertake(root: Path, last: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """Take the lock and write down that the environment goes back to the release before."""
    path = last["environment"]
    kept = [one for one in Ledger(root, path).look() if one["state"] == PREVIOUS]
    if not kept:
        raise Refusal(
            "no-previous",
            f"There is no release beside {path} to go back to. Nothing was changed.",
            "Redeploy the version that you want.",
        )
    previous = max(kept, key=lambda one: float(one["since"]))["path"]
    holder = f"{_NAME}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    who = f"{os.environ.get('SUDO_USER') or scope.now().user or 'root'} on the host"
    asked = {"environment": path, "holder": holder}
    ask("lock", {**asked, "who": who, "why": "rollback", "lease_seconds": _LEASE_SECONDS})
    distribution = last["record"].get("distribution", "vllm")
    document = {
        **last,
        "sibling": previous,
        "previous": previous,
        "rejected": f"{path}.rejected-{holder[len(_NAME) + 1 :]}",
        "back_to": previous,
        "record": {
            **last["record"],
            "id": holder,
            "who": who,
            "why": "rollback",
            "target": "previous",
            "before": environment.versions(Path(path)).get(distribution, "unknown"),
            "after": environment.versions(Path(previous)).get(distribution, "unknown"),
            "delta": {"count": None, "why": "It went back.", **dict.fromkeys(_OF_DELTA)},
            "changes": {"changes": [], "locked": []},
            "locked": 0,
        },
    }
    arguments = {name: document[name] for name in document.keys() - _NOT_ASKED}
    opened = {**last, "holder": holder, "environment": path}
    error = _ensure(ask, opened, "open", arguments)["error"]
    if error:
        ask("unlock", asked)
        raise Refusal(error["kind"], error["message"], error["hint"])
    return {**document, "holder": holder}


_OF_DELTA = ("from_commit", "to_commit", "compare_url")
_NOT_ASKED = {"holder", "opened", "old", "open"}


def _ensure(
    ask: Ask, undertaken: dict[str, Any], verb: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    asked = {**transactions.asking(undertaken, verb, arguments), "tell_seconds": _TELL_SECONDS}
    while (answer := ask("ensure", asked))["state"] == "running":
        pass
    return answer


def _record(undertaken: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    draft = undertaken["record"]
    result = "live" if undertaken["back_to"] else "rolled back"
    verdict = f"Rolled back to {transactions.back_at(undertaken)} by hand; serving."
    if answer["error"]:
        since = time.strftime("%H:%M:%S UTC", time.gmtime(answer["started"]))
        result = "down"
        verdict = (
            f"DOWN since {since}. The way back failed: {answer['error']['message']} "
            f"Try: {scope.by_hand('systemctl', 'restart', undertaken['unit'])}"
        )
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    return {**draft, "time": now, "result": result, "verdict": verdict}


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
