"""A host with a story, ready and healthy: laid out once, from then on copied from a template."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path

from deployments.sandbox import base, hosts, index_server, layout, preflight, ssh, state
from deployments.sandbox.command import run
from deployments.sandbox.errors import SandboxError
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import STORIES, Story

HERE = Path(__file__).parent
FAILURE_FILE = "/etc/vllm-standin.json"


def prepare(name: str, story: str, say: state.Say = state.say_on_stderr) -> SandboxHost:
    """Return a host with a story as at its beginning; an existing host of that name is replaced.

    The first time for a story takes about half a minute, later times some seconds.

    Raises:
        SandboxError: this machine cannot boot a host, or the service does not come up.
    """
    chosen = find(story)
    preflight.require()
    with state.locked(f"host-{name}"):
        template = _template(chosen, say)
        if state.host_folder(name).exists():
            hosts.remove(name)
        with state.locked("hosts"):
            hosts.create(name, chosen.data_path, template)
            _serve_index()
        host = hosts.up(name, say=say)
        layout.wait_until_healthy(host, chosen)
        return host


def find(story: str) -> Story:
    """Return a story by its key.

    Raises:
        SandboxError: there is none of that name.
    """
    if story not in STORIES:
        raise SandboxError(f"There is no story {story!r}.", f"There are: {', '.join(STORIES)}.")
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


def _template(story: Story, say: state.Say) -> Path:
    """Return the story's template; build it where there is none for this code."""
    with state.locked(f"template-{story.key}"):
        with state.locked("hosts"):
            layers = base.layers(say)
        template = state.root() / "templates" / f"{story.key}-{_digest(layers)}"
        if not template.exists():
            _build_template(story, template, say)
        return template


def _build_template(story: Story, template: Path, say: state.Say) -> None:
    say(f"laying out the story {story.key} (once, about 20 s)")
    began = time.monotonic()
    name = f"lay{story.key[:7]}"
    if state.host_folder(name).exists():
        hosts.remove(name)
    with state.locked("hosts"):
        hosts.create(name, story.data_path)
        _serve_index()
    try:
        layout.lay_out(hosts.up(name, say=say), story)
        hosts.down(name)
        _save(state.host_folder(name), template)
    finally:
        hosts.remove(name)
    say(f"story laid out in {time.monotonic() - began:.0f} s")


def _save(folder: Path, template: Path) -> None:
    """Keep a host's disks, without what is a host's own: its identity and its journal."""
    for old in template.parent.glob(f"{template.name.partition('-')[0]}-*"):
        shutil.rmtree(old)
    building = template.with_name(f"new-{template.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    run("cp", "--archive", folder / "upper", folder / "data.img", building)
    shutil.rmtree(building / "upper/var/log/journal")
    (building / "upper/var/log/journal").mkdir()
    (building / "upper/etc/machine-id").write_text("")
    building.rename(template)


def _serve_index() -> None:
    """Serve the index that belongs to this code; a host must exist already."""
    folder = state.root() / "index"
    written = folder / _digest([])
    if not written.exists():
        building = written.with_suffix(".new")
        shutil.rmtree(building, ignore_errors=True)
        layout.publish(building)
        building.rename(written)
    current = folder / "current"
    following = folder / "following"
    following.unlink(missing_ok=True)
    following.symlink_to(written.name)
    following.rename(current)
    for old in folder.iterdir():
        if old not in (current, written):
            shutil.rmtree(old)
    index_server.start(current)


def _digest(layers: list[Path]) -> str:
    """Return a digest of all that a laid-out host depends on."""
    found = hashlib.sha256(":".join(layer.name for layer in layers).encode())
    for path in sorted(HERE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.name != "cli.py":
            found.update(str(path.relative_to(HERE)).encode() + path.read_bytes())
    return found.hexdigest()[:12]
