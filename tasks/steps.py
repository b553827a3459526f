"""The steps of a redeploy, as tasks.

A step is a Prefect task. Its result is kept under a key of our own (redeploy, attempt, step), so
that a resumed run shows finished steps as they were; what acts asks the host's operation log.
"""

import functools
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from prefect import task
from prefect.cache_policies import NO_CACHE, CacheKeyFnPolicy
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.states import Failed

from blocks.errors import RedeployError
from tasks import report
from tasks.artifacts import publish
from tasks.errors import StepFailed
from tasks.policies import POLICIES
from tasks.redeployment import Redeployment

P = ParamSpec("P")
T = TypeVar("T")


def step(
    name: str, *, kept: bool = True
) -> Callable[
    [Callable[Concatenate[Redeployment, P], T]], Callable[Concatenate[Redeployment, P], T]
]:
    """Make a function of a redeployment a step of that name.

    Args:
        name: a key of `POLICIES`; also the task's name.
        kept: whether a resumed run is shown the result as it was, instead of asking the host.

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
                if isinstance(error, StepFailed) and error.said:
                    publish(run, "failure", report.failure_page(error), error.message)
                return cast("T", Failed(message=str(error), data=error))

        as_task = task(
            name=name,
            task_run_name=name.replace("-", " "),
            persist_result=True,
            cache_policy=CacheKeyFnPolicy(cache_key_fn=functools.partial(_key, name))
            if kept
            else NO_CACHE,
        )(functools.update_wrapper(guarded, function))

        def call(run: Redeployment, /, *args: P.args, **kwargs: P.kwargs) -> T:
            began, run.step = monotonic(), name
            state: State[T] = as_task(run, *args, **kwargs, return_state=True)
            run.took(name, monotonic() - began, ok=state.is_completed())
            return state.result()

        functools.update_wrapper(call, function)
        return call

    return decorate


def _key(name: str, _context: TaskRunContext, parameters: dict[str, Any]) -> str:
    run: Redeployment = parameters["run"]
    return f"{run.id}/{run.phase or 'redeploy'}/{name}"
