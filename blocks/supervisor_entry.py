"""The archive's `__main__`: runs the supervisor from an unpacked copy of itself.

Python compiles what it imports from an archive anew each time; of unpacked files it keeps the byte
code. Where no copy can be made, the archive is run as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

CODE = Path("/run/vllm-redeploy/code")
"""In memory, for root alone, and gone with the boot; another user has a place of that kind too."""
_KEPT = 3


def unpacked(program: Path, code: Path = CODE) -> Path | None:
    """Return the folder with the unpacked copy of an archive, or None where there can be none.

    Those of some earlier archives stay: a process that runs from one imports more of it later.
    """
    try:
        found = program.stat()
        folder = code / f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"
        if not folder.is_dir():
            _unpack(program, folder)
        return folder
    except OSError:
        return None


def _unpack(program: Path, folder: Path) -> None:
    import shutil
    import tempfile
    import zipfile

    folder.parent.parent.mkdir(mode=0o700, exist_ok=True)
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    new = tempfile.mkdtemp(prefix=".", dir=folder.parent)
    try:
        with zipfile.ZipFile(program) as archive:
            archive.extractall(new)
        Path(new).rename(folder)
    except (OSError, zipfile.BadZipFile) as error:
        shutil.rmtree(new, ignore_errors=True)
        if not folder.is_dir():  # else another process was quicker
            raise OSError("no room") from error
    copies = [one for one in folder.parent.iterdir() if not one.name.startswith(".")]
    for old in sorted(copies, key=lambda one: one.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    mine = Path(f"/run/user/{os.geteuid()}/vllm-redeploy/code")
    copy = unpacked(Path(sys.argv[0]).resolve(), CODE if os.geteuid() == 0 else mine)
    if copy is not None:
        sys.path.insert(0, os.fspath(copy))
    from blocks.supervisor.main import main

    sys.exit(main(sys.argv[1:]))
