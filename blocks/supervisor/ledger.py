"""The folders of an environment that this program made, or found and took over.

A folder is known by its inode, so what is live is looked up and never only remembered. The number
of the device is left out: it may be another one after a reboot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blocks.supervisor import store

STAGED, LIVE, PREVIOUS, REJECTED = "staged", "live", "previous", "rejected"
FOUND = "found"
"""The release of a folder that was there before this program came."""


class Ledger:
    """The folders of one environment: which release each is, and what it was last.

    Args:
        root: The state folder.
        environment: The environment's path.
    """

    def __init__(self, root: Path, environment: str) -> None:
        self._environment = Path(environment)
        self._path = root / "environments" / f"{store.key_of(environment)}.json"

    def enter(self, folder: Path, release: str, state: str, sealed: str | None = None) -> None:
        """Write down a folder, or what has become of one; those that are gone are forgotten.

        Args:
            folder: The folder.
            release: Which release it is.
            state: What it is now.
            sealed: Its digest now, where it is to be kept.
        """
        inode = str(folder.lstat().st_ino)
        with store.guarded(self._path.with_suffix(".guard")):
            there = {number for _, number in self._siblings()}
            folders = {number: one for number, one in self._read().items() if number in there}
            known = folders.get(inode, {})
            if known.get("state") != state:
                folders[inode] = {**known, "release": release, "state": state, "since": time.time()}
            if sealed is not None:
                folders[inode]["seal"] = sealed
            document = {"environment": os.fspath(self._environment), "folders": folders}
            store.write(self._path, document)

    def becomes(self, folder: Path, state: str, sealed: str | None = None) -> None:
        """Write down that a folder, known or not, is now something else than before."""
        known = self.release_at(folder)
        self.enter(folder, known["release"] if known else FOUND, state, sealed)

    def look(self) -> list[dict[str, Any]]:
        """Return the folders that are there: `path`, `release`, `state` and since when."""
        known = self._read()
        return [
            {"path": os.fspath(path), **known[inode]}
            for path, inode in self._siblings()
            if inode in known
        ]

    def release_at(self, folder: Path) -> dict[str, Any] | None:
        """Return what is known of the folder at a path."""
        return next((one for one in self.look() if one["path"] == os.fspath(folder)), None)

    def _siblings(self) -> Iterator[tuple[Path, str]]:
        """Yield the environment and the folders beside it that bear its name, with their inodes."""
        name = self._environment.name
        with os.scandir(self._environment.parent) as entries:
            for entry in entries:
                ours = entry.name == name or entry.name.startswith(f"{name}.")
                if ours and entry.is_dir(follow_symlinks=False):
                    yield self._environment.parent / entry.name, str(entry.inode())

    def _read(self) -> dict[str, dict[str, Any]]:
        kept: dict[str, dict[str, Any]] = (store.read(self._path) or {}).get("folders", {})
        return kept
