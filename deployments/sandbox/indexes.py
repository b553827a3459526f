"""The wheel indexes of different versions of this code, side by side, each under its digest.

What lies under a digest never changes. So a host keeps finding what its service was installed
from, whatever another checkout, or an edit of this one, publishes meanwhile.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

from deployments.sandbox import hosts, index_server, layout, pruning, state

KEPT = 5
DIGEST = re.compile(r"[0-9a-f]{12}")


def publish() -> str:
    """Write the index of this code, where it is not there yet, and return its digest."""
    with state.locked("hosts"):
        building = _folder() / "new"
        shutil.rmtree(building, ignore_errors=True)
        layout.publish(building)
        digest = digest_of(building)
        if not (_folder() / digest).exists():
            building.rename(_folder() / digest)
        shutil.rmtree(building, ignore_errors=True)
        pruning.mark_used(_folder() / digest)
        return digest


def serve(digest: str) -> None:
    """Serve all indexes, this one among them, and prune the others.

    The lock of the hosts must be held, and a host must have been made under it: with the last
    host goes the server.
    """
    index_server.start(_folder(), digest)
    written = [one for one in _folder().iterdir() if DIGEST.fullmatch(one.name)]
    pruning.prune(written, KEPT, {digest, *(host.index for host in hosts.list_hosts())})


def digest_of(folder: Path) -> str:
    """Return a digest of all files below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found.update(f"{path.relative_to(folder)}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:12]


def _folder() -> Path:
    return state.root() / "indexes"
