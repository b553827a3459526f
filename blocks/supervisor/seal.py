"""Tells whether an environment is still what it was: one digest over what is installed.

Over the names of the distributions and the text of their RECORDs, which hold the hash of every
file; `verify` reads the files themselves.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from blocks.supervisor import environment


def seal(path: Path) -> str:
    """Return the digest of an environment."""
    digest = hashlib.sha256()
    for info in sorted(environment.dist_infos(path), key=lambda one: one.name):
        try:
            record = (info / "RECORD").read_bytes()
        except OSError:
            record = b""
        digest.update(f"{info.name}\0{hashlib.sha256(record).hexdigest()}\n".encode())
    return digest.hexdigest()
