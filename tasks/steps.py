"""The steps of a redeploy: how long each may take, what is tried again, what a person sees.

A step is a Prefect task. Its result is kept under a key of our own (redeploy, attempt, step), so
that a resumed run shows finished steps as they were; what acts asks the host's operation log.
"""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from prefect import task
from prefect.cache_policies import CacheKeyFnPolicy
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.states import Failed

from blocks.errors import RedeployError
from tasks.redeployment import Redeployment

P = ParamSpec("P")
T = TypeVar("T")

LINK = "a lost link, until the host's link_patience_seconds have passed"
HOOK = "a hook without an answer, or with 5xx, 429 or exit status 75, three times"


@dataclass(frozen=True)
class Policy:
    """What holds for one step.

    Attributes:
        deadline_seconds: how long the flow waits for its operation, which goes on on the host;
            None: the service says.
        again: which errors are transient and tried again.
        shown: what a person sees when it fails.
    """

    deadline_seconds: int | None
    again: str
    shown: str


POLICIES = {
    "lock": Policy(60, LINK, "who holds the environment, since when and why"),
    "snapshot": Policy(120, LINK, "what could not be read"),
    "plan": Policy(900, f"{LINK}; an index that does not answer, three times", "why it is refused"),
    "prove-old": Policy(10, "a service that does not answer yet", "how it does not serve"),
    "drain": Policy(None, f"{LINK}; {HOOK}", "what the hook answered"),
    "stop": Policy(None, LINK, "systemd's answer"),
    "reinstall": Policy(3600, LINK, "uv's own words"),
    "verify": Policy(1800, LINK, "the files, markers and packages that are not as locked"),
    "cleanup": Policy(300, LINK, "what could not be removed"),
    "switch": Policy(300, LINK, "what was at the path and what is there now"),
    "start": Policy(None, LINK, "systemd's answer, or who holds the GPUs"),
    "restart": Policy(None, LINK, "systemd's answer, or who holds the GPUs"),
    "wait-healthy": Policy(None, LINK, "the last stage and the service's last lines"),
    "diagnose": Policy(120, LINK, "the finding, or that the log does not hold the cause"),
    "fix": Policy(900, LINK, "the remedy and uv's own words"),
    "benchmark": Policy(None, LINK, "how many requests failed"),
    "undrain": Policy(None, HOOK, "STILL DRAINED, what the hook answered, and what to do by hand"),
    "record": Policy(60, LINK, "where the record is not"),
    "roll-back": Policy(None, LINK, "DOWN since when, and the one command to try"),
}


def policies_page() -> str:
    """Return the table of all steps as markdown; docs/steps.md is this."""
    rows = "\n".join(
        f"| {name} | {_limit(one.deadline_seconds)} | {one.again} | {one.shown} |"
        for name, one in POLICIES.items()
    )
    return (
        "# What happens when a step fails\n\n"
        "| step | longest | tried again | what a person sees |\n|---|---|---|---|\n"
        f"{rows}\n"
    )


def _limit(seconds: int | None) -> str:
    return "as the service says" if seconds is None else f"{seconds} s"


def step(
    name: str,
) -> Callable[
    [Callable[Concatenate[Redeployment, P], T]], Callable[Concatenate[Redeployment, P], T]
]:
    """Make a function of a redeployment a step of that name.

    Args:
        name: a key of `POLICIES`; also the task's name.

    Returns:
        A decorator. The decorated function runs as a Prefect task and returns the function's own
        result; a `RedeployError` makes the task red with the error's sentence and is raised.
    """
    if name not in POLICIES:
        raise KeyError(name)

    def decorate(
        function: Callable[Concatenate[Redeployment, P], T],
    ) -> Callable[Concatenate[Redeployment, P], T]:
        def guarded(run: Redeployment, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(run, *args, **kwargs)
            except RedeployError as error:
                run.log(str(error), logging.ERROR)
                return cast("T", Failed(message=str(error), data=error))

        as_task = task(
            name=name,
            task_run_name=name.replace("-", " "),
            persist_result=True,
            cache_policy=CacheKeyFnPolicy(cache_key_fn=functools.partial(_key, name)),
        )(functools.update_wrapper(guarded, function))

        def call(run: Redeployment, /, *args: P.args, **kwargs: P.kwargs) -> T:
            began, run.step = monotonic(), name
            state: State[T] = as_task(run, *args, **kwargs, return_state=True)
            run.took(name, monotonic() - began)
            return state.result()

        functools.update_wrapper(call, function)
        return call

    return decorate


def _key(name: str, _context: TaskRunContext, parameters: dict[str, Any]) -> str:
    run: Redeployment = parameters["run"]
    return f"{run.id}/{run.phase or 'redeploy'}/{name}"
