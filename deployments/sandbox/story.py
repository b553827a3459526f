"""A host with a story, ready and healthy: laid out once, from then on copied from a template."""

from __future__ import annotations

import json

from deployments.sandbox import hosts, indexes, layout, preflight, ssh, state, templates
from deployments.sandbox.errors import WrongWish
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import STORIES, Story

FAILURE_FILE = "/etc/vllm-standin.json"


def prepare(name: str, story: str, say: state.Say = state.say_on_stderr) -> SandboxHost:
    """Return a host with a story as at its beginning; an existing host of that name is replaced.

    The first time for a story takes about half a minute, later times some seconds.

    Raises:
        WrongWish: that is no name for a host, or there is no such story.
        SandboxError: this machine cannot boot a host, or the service does not come up.
    """
    chosen = find(story)
    folder = state.host_folder(name)  # refuses what is no name
    preflight.require()
    with state.locked(f"host-{name}"):
        index = indexes.publish()
        with templates.template(chosen, index, say) as template:
            if folder.exists():
                hosts.remove(name)
            with state.locked("hosts"):
                hosts.create(name, chosen.data_path, template, index)
                indexes.serve(index)
        host = hosts.up(name, say=say)
        layout.wait_until_healthy(host, chosen)
        return host


def find(story: str) -> Story:
    """Return a story by its key.

    Raises:
        WrongWish: there is none of that name.
    """
    if story not in STORIES:
        raise WrongWish(f"There is no story {story!r}.", f"There are: {', '.join(STORIES)}.")
    return STORIES[story]


def set_failure(
    host: SandboxHost,
    kind: str,
    stage: str,
    *,
    version: str | None = None,
    starts: int | None = None,
    after_seconds: float | None = None,
) -> None:
    """Tell the stand-in on a host to fail.

    Args:
        host: where.
        kind: one of the stand-in's kinds of failure.
        stage: when; `FAILURES` and `WRONG_ANSWERS` say which stages a kind can have.
        version: the only version that fails.
        starts: how many starts fail before one succeeds.
        after_seconds: how long it serves before it fails in the stage `serving`.
    """
    asked = {
        "kind": kind,
        "stage": stage,
        "version": version,
        "starts": starts,
        "after_seconds": after_seconds,
    }
    document = json.dumps({name: value for name, value in asked.items() if value is not None})
    ssh.run(host, "tee", FAILURE_FILE, stdin=document.encode())


def clear_failure(host: SandboxHost) -> None:
    """Let the stand-in on a host work again."""
    ssh.run(host, "rm", "-f", FAILURE_FILE, "/var/tmp/vllm-standin-starts.json")  # noqa: S108
