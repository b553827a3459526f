"""What each verb may be given: the table that every call is checked against first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from blocks.supervisor import values as v
from blocks.supervisor.failures import Refusal
from tasks.startup.stall import FLOOR_SECONDS


class Argument(NamedTuple):
    """How one argument is checked; one that is not required has a default."""

    check: v.Check
    required: bool = True
    default: Any = None


Arguments = dict[str, Argument]
_need = Argument


def _may(check: v.Check, default: Any = None) -> Argument:
    return Argument(v.optional(check), required=False, default=default)


_DAY = 86400.0
READY_PATIENCE_SECONDS = 300.0
"""How long a service that listens may take to answer as it should, unless it is said."""
_URLS = v.many(v.url, 20)
_NAMES = v.many(v.one_line, 200)
_VERSIONS = v.table(v.package, v.word)
_FACTS: Arguments = {
    "unit": _need(v.unit),
    "environment": _need(v.path),
    "distribution": _may(v.package),
    "model": _may(v.path),
}
_JOURNAL: Arguments = {
    "unit": _need(v.unit),
    "invocation": _may(v.invocation),
    "since": _may(v.number(0, 1e11)),
    "lines": _may(v.whole(1, 10_000), 200),
}
_RESTARTS = _may(v.whole(0, 100), 0)
_SOURCES: Arguments = {name: _may(_URLS, []) for name in ("first_indexes", "indexes", "find_links")}

READING: dict[str, Arguments] = {
    "version": {},
    "facts": _FACTS,
    "alive": {
        "unit": _need(v.unit),
        "invocation": _need(v.invocation),
        "port": _need(v.whole(1, 65535)),
        "restarts_tolerated": _RESTARTS,
    },
    "journal": _JOURNAL,
    "probe": {"environment": _need(v.path)},
    "operations": {"prefix": _need(v.operation)},
    "recorded": {"operation": _need(v.operation)},
    "status": {"environment": _may(v.path)},
    "history": {"environment": _may(v.path)},
    "keep": {
        "environment": _need(v.path),
        "who": _need(v.one_line),
        "why": _need(v.one_line),
        "until": _may(v.number(0, 1e11)),
    },
    "unkeep": {"environment": _need(v.path), "who": _need(v.one_line)},
    "lock": {
        "environment": _need(v.path),
        "holder": _need(v.operation),
        "who": _need(v.one_line),
        "why": _need(v.one_line),
        "lease_seconds": _need(v.number(1, 30 * _DAY)),
    },
    "unlock": {"environment": _need(v.path), "holder": _need(v.operation)},
    "ensure": {
        "operation": _need(v.operation),
        "verb": _need(v.one_line),
        "holder": _need(v.operation),
        "environment": _need(v.path),
        "arguments": _need(v.document),
        "secrets": _may(v.table(v.secret_name, v.secret), {}),
        "wait_seconds": _may(v.number(0, 600), 0),
        "tell_seconds": _may(v.number(0.1, 600)),
    },
}
"""The verbs that answer at once."""

_WATCH: Arguments = {
    "unit": _need(v.unit),
    "invocation": _need(v.invocation),
    "started": _need(v.number(0, 1e11)),
    "port": _need(v.whole(1, 65535)),
    "deadline_seconds": _need(v.number(0, 7 * _DAY)),
    "lines": _may(v.whole(0, 200), 80),
    "limits": _may(v.table(v.stage, v.number(0.001, 7 * _DAY)), {}),
    "longest": _may(v.table(v.one_line, v.number(0, 365 * _DAY)), {}),
    "stall_floor_seconds": _may(v.number(1, 7 * _DAY), FLOOR_SECONDS),
    "restarts_tolerated": _RESTARTS,
    "environment": _may(v.path),
}

_START: Arguments = {
    "unit": _need(v.unit),
    "baseline": _may(v.table(v.one_line, v.whole(0, 1 << 60)), {}),
    "gpu_wait_seconds": _may(v.number(0, _DAY), 0),
    "tolerance_bytes": _may(v.whole(0, 1 << 60), 0),
    "port": _may(v.whole(1, 65535)),
}
_HOLD: Arguments = {**_WATCH, "seconds": _need(v.number(0, _DAY))}
_LAUNCHED = ("invocation", "started")

DOING: dict[str, Arguments] = {
    "remember": {"document": _need(v.document)},
    "facts": _FACTS,
    "journal": _JOURNAL,
    "stop": {"unit": _need(v.unit), "timeout_seconds": _need(v.number(0, _DAY))},
    "resolve": {
        "environment": _need(v.path),
        "requirements": _need(v.many(v.requirement)),
        "constraints": _may(v.many(v.requirement), []),
        "wheels": _may(v.many(v.package), []),
        **_SOURCES,
    },
    "stage": {
        "environment": _need(v.path),
        "release": _need(v.release),
        "lock": _need(v.text),
        **_SOURCES,
    },
    "verify": {
        "environment": _need(v.path),
        "look_at": _may(v.path),
        "locked": _may(_VERSIONS, {}),
        "markers": _may(_NAMES, []),
        "imports": _may(v.many(v.module, 100), []),
        "model": _may(v.path),
        "forbidden_config_keys": _may(_NAMES, []),
    },
    "cleanup": {
        "patterns": _need(v.many(v.glob, 100)),
        "owner": _need(v.user),
        "older_than_seconds": _may(v.number(0, 3650 * _DAY), 0),
    },
    "switch": {
        "environment": _need(v.path),
        "sibling": _need(v.path),
        "previous": _need(v.path),
        "unit": _may(v.unit),
    },
    "start": _START,
    "swap": {
        **_START,
        "environment": _need(v.path),
        "sibling": _need(v.path),
        "previous": _need(v.path),
    },
    "watch": _WATCH,
    "hold": _HOLD,
    "open": {
        **_START,
        **{name: one for name, one in _HOLD.items() if name not in _LAUNCHED},
        "environment": _need(v.path),
        "sibling": _need(v.path),
        "previous": _need(v.path),
        "rejected": _need(v.path),
        "back_to": _may(v.path),
        "stop_timeout_seconds": _need(v.number(0, _DAY)),
        "grace_seconds": _need(v.number(1, 30 * _DAY)),
        "ready_patience_seconds": _may(v.number(0, 30 * _DAY), READY_PATIENCE_SECONDS),
        "record": _need(v.document),
    },
    "revert": {"environment": _need(v.path)},
    "install": {
        "environment": _need(v.path),
        "packages": _need(v.many(v.pinned, 200)),
        **_SOURCES,
    },
    "uninstall": {"environment": _need(v.path), "packages": _need(v.many(v.package, 20))},
    "fetch-kernels": {"environment": _need(v.path)},
    "drop-in": {
        "unit": _need(v.unit),
        "name": _need(v.release),
        "lines": _need(v.many(v.service_line, 20)),
    },
    "end-left-overs": {"unit": _need(v.unit)},
    "set-aside": {"path": _need(v.path)},
    "benchmark": {
        "environment": _need(v.path),
        "unit": _need(v.unit),
        "timeout_seconds": _need(v.whole(1, 86_400)),
        "stall_seconds": _may(v.number(1, _DAY), 120),
        "port": _need(v.whole(1, 65535)),
        "model": _need(v.word),
        "tokenizer": _may(v.word),
        "num_prompts": _need(v.whole(1, 100_000)),
        "input_len": _need(v.whole(1, 10_000_000)),
        "output_len": _need(v.whole(1, 10_000_000)),
    },
    "discard": {"environment": _need(v.path), "sibling": _need(v.path)},
    "prune": {"environment": _need(v.path)},
    "record": {"record": _need(v.document)},
}
"""The verbs of `ensure`."""


ANSWER_STANDS: dict[str, bool] = {
    "remember": True,  # to give back the first one is what it is for
    "facts": True,  # as they were then
    "journal": True,
    "resolve": True,  # an index has moved on, the plan has not
    "watch": True,  # a start that is over has one verdict
    "hold": True,
    "open": True,  # what was undertaken first is what is taken back
    "revert": True,  # there is one way back
    "record": True,  # a second write-up has another time in it
    "stop": False,
    "stage": False,
    "verify": False,
    "cleanup": False,
    "switch": False,
    "start": False,
    "swap": False,
    "install": False,
    "uninstall": False,
    "fetch-kernels": False,
    "drop-in": False,
    "end-left-overs": False,
    "set-aside": False,
    "benchmark": False,
    "discard": False,
    "prune": False,
}
"""Whether a known operation's answer is given whatever is asked for now; else that is refused."""


def checked(verb: str, given: Any, known: dict[str, Arguments]) -> dict[str, Any]:
    """Return the arguments of a verb, checked and with defaults filled in.

    Raises:
        Refusal: The verb or an argument is unknown, missing or not as it has to be.
    """
    require_verb(verb, known)
    given = v.document(given, "the request")
    for name in given:
        if name not in known[verb]:
            raise v.refuse(name[:80], f"{verb} knows no such argument.")
    return {name: _one(name, argument, given) for name, argument in known[verb].items()}


def require_verb(verb: str, known: Collection[str]) -> None:
    """See that there is a verb.

    Raises:
        Refusal: It is none of those.
    """
    if verb not in known:
        verbs = ", ".join(sorted(known))
        raise Refusal("unknown-verb", f"There is no verb {verb!r} here.", f"Use one of: {verbs}.")


def check_together(environment: str, arguments: dict[str, Any]) -> None:
    """Refuse arguments that lead away from the environment whose lock is held.

    Raises:
        Refusal: An operation's paths are neither the environment nor its siblings.
    """
    if arguments.get("environment") not in (None, environment):
        raise v.refuse("environment", f"the lock is on {environment!r}, not on this one.")
    for name in ("sibling", "previous", "rejected", "back_to"):
        if arguments.get(name) and not is_sibling(arguments[name], environment):
            raise v.refuse(name, f"it has to be named {environment}.<something>.")
    look_at = arguments.get("look_at")
    if look_at not in (None, environment) and not is_sibling(str(look_at), environment):
        raise v.refuse("look_at", f"it has to be {environment} or {environment}.<something>.")


def is_sibling(path: str, environment: str) -> bool:
    """Tell whether a path is `<environment>.<something>`, in the same folder."""
    rest = path[len(environment) + 1 :]
    return path.startswith(f"{environment}.") and bool(rest) and "/" not in rest


def _one(name: str, argument: Argument, given: dict[str, Any]) -> Any:
    if name not in given:
        if argument.required:
            raise v.refuse(name, "it is missing.")
        return argument.default
    value = argument.check(given[name], name)
    return argument.default if value is None else value
