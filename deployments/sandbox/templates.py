"""Hosts laid out once for a story and this code, from which others are copied."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployments.sandbox import base, hosts, indexes, layout, pruning, state
from deployments.sandbox.command import run
from deployments.sandbox.stories import Story

HERE = Path(__file__).parent
KEPT = 3
"""How many templates of one story stay: the largest takes 80 MB."""


@contextmanager
def template(story: Story, index: str, say: state.Say) -> Iterator[Path]:
    """Yield the story's template for this code and an index; build it where there is none.

    It stays while the block runs.
    """
    with state.locked(f"template-{story.key}"):
        with state.locked("hosts"):
            layers = base.layers(say)
        parts = ":".join([index, _CODE, *(layer.name for layer in layers)])
        digest = hashlib.sha256(parts.encode()).hexdigest()[:12]
        folder = state.root() / "templates" / f"{story.key}-{digest}"
        if not folder.exists():
            _build(story, index, folder, say)
        pruning.mark_used(folder)
        pruning.prune(folder.parent.glob(f"{story.key}-*"), KEPT)
        yield folder


def _build(story: Story, index: str, folder: Path, say: state.Say) -> None:
    say(f"laying out the story {story.key} (once, about 20 s)")
    began = time.monotonic()
    name = f"lay{story.key[:7]}"
    if state.host_folder(name).exists():
        hosts.remove(name)
    try:
        with state.locked("hosts"):
            hosts.create(name, story.data_path, index=index)
            indexes.serve(index)
        layout.lay_out(hosts.up(name, say=say), story)
        hosts.down(name)
        _save(state.host_folder(name), folder)
    finally:
        hosts.remove(name)
    say(f"story laid out in {time.monotonic() - began:.0f} s")


def _save(host: Path, folder: Path) -> None:
    """Keep a host's disks, without what is a host's own: its identity and its journal."""
    building = folder.with_name(f"new-{folder.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    run("cp", "--archive", host / "upper", host / "data.img", building)
    shutil.rmtree(building / "upper/var/log/journal")
    (building / "upper/var/log/journal").mkdir()
    (building / "upper/etc/machine-id").write_text("")
    building.rename(folder)


def _code() -> str:
    found = hashlib.sha256()
    for path in sorted(HERE.iterdir()):
        if path.suffix in (".py", ".sh") and path.name != "cli.py":
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


_CODE = _code()  # as it is loaded: an edit does not change what a running process does
