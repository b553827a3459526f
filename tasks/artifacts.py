"""Prefect artifacts of a redeploy, under keys that stay the same for a service."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.artifacts import create_markdown_artifact

from tasks.markdown import inert
from tasks.redeployment import Redeployment


def key(run: Redeployment, what: str) -> str:
    """Return an artifact's key: the service and what it is, so that history is one click."""
    return f"{run.request.service}-{what}"


def publish(run: Redeployment, what: str, markdown: str, description: str) -> None:
    """Save a markdown artifact on the page of the run that is under way, if that can be done."""
    with best_effort(run, what):
        create_markdown_artifact(markdown, key=key(run, what), description=inert(description))


@contextmanager
def best_effort(run: Redeployment, what: str) -> Iterator[None]:
    """Go on when something cannot be shown: a service is not left down for a page's sake."""
    try:
        yield
    except Exception as error:
        run.log(f"{what} could not be shown: {type(error).__name__}: {error}", logging.WARNING)
