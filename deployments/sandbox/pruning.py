"""What versions of this code leave behind: kept while it is used, and for some time after."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable
from pathlib import Path

DAYS = 7


def mark_used(folder: Path) -> None:
    """Note that a folder is being used now."""
    os.utime(folder)


def prune(folders: Iterable[Path], keep: int, in_use: Collection[str] = ()) -> None:
    """Remove folders that nobody uses, but for those used lately.

    Args:
        folders: all of one kind.
        keep: how many of those that are not in use may stay, if used within `DAYS`.
        in_use: the names of those that stay in any case.
    """
    used_at = {one: one.stat().st_mtime for one in folders if one.name not in in_use}
    lately = sorted(used_at, key=used_at.__getitem__, reverse=True)[:keep]
    for folder, then in used_at.items():
        if folder not in lately or time.time() - then > DAYS * 86_400:
            shutil.rmtree(folder)
