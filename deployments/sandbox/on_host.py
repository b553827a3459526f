"""Runs on a host, as root: leaves behind what an operator left behind. Standard library only."""

import json
import os
import pwd
import sys
import time
from pathlib import Path

TWO_DAYS = 2 * 24 * 3600


def main() -> None:
    """Edit files in place, write dumps, and put things beside them that nobody may touch."""
    wanted = json.loads(sys.argv[1])
    for path, text in wanted["appended"].items():
        with Path(path).open("a") as file:  # in place: a hard link into uv's cache keeps its inode
            file.write(text)
    user = pwd.getpwnam(wanted["user"])
    for path, size in wanted["dumps"].items():
        Path(path).write_bytes(os.urandom(size))
        _age(path, user)
    kept = Path(user.pw_dir, "kept.pt")
    kept.write_bytes(b"reached through a link")
    _age(kept, user)
    for path in wanted["links"]:
        Path(path).symlink_to(kept)
        _age(path, user)
    for path in wanted["others"]:
        Path(path).write_text("somebody else's\n")
    for path in wanted["notes"]:
        Path(path).write_text("notes\n")
        _age(path, user)


def _age(path: "str | Path", user: pwd.struct_passwd) -> None:
    os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
    then = time.time() - TWO_DAYS
    os.utime(path, (then, then), follow_symlinks=False)


main()
