"""Forgets operations of long ago, so that what is remembered does not grow without end."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from blocks.supervisor import store
from blocks.supervisor.store import Store

KEPT_SECONDS = 90 * 86400.0
_GOING = ".pruned-"


def forget_old_operations(kept: Store) -> list[str]:
    """Remove the operations of redeploys that ended long ago; return the redeploys' names.

    Those of a redeploy that holds a lock stay, however old they are.
    """
    oldest = time.time() - KEPT_SECONDS
    forgotten = []
    for folder in sorted(kept.operations.iterdir()):
        if folder.name.startswith(_GOING):
            shutil.rmtree(folder, ignore_errors=True)
        elif _newest(folder) < oldest and folder.name not in _holders(kept):
            going = folder.with_name(f"{_GOING}{folder.name}")
            folder.rename(going)  # at once: half of an operation would be taken for a killed one
            shutil.rmtree(going, ignore_errors=True)
            forgotten.append(folder.name)
    return forgotten


def _holders(kept: Store) -> set[str]:
    held = filter(None, map(store.read, kept.locks.glob("*.json")))
    return {str(one["holder"]).partition("/")[0] for one in held}


def _newest(folder: Path) -> float:
    """Return when something was last written in a folder."""
    newest = folder.lstat().st_mtime
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            newest = max(newest, Path(parent, name).lstat().st_mtime)
    return newest
