"""Prefect artifacts of a redeploy, under keys that stay the same for a service."""

from prefect.artifacts import create_markdown_artifact

from tasks.redeployment import Redeployment


def key(run: Redeployment, what: str) -> str:
    """Return an artifact's key: the service and what it is, so that history is one click."""
    return f"{run.request.service}-{what}"


def publish(run: Redeployment, what: str, markdown: str, description: str) -> None:
    """Save a markdown artifact on the page of the run that is under way."""
    create_markdown_artifact(markdown, key=key(run, what), description=description)
