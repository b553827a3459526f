"""What watching costs a sandbox host: the CPU time of every process of the supervisor there."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from deployments.sandbox import hosts
from deployments.sandbox.ssh import SandboxHost

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_SECONDS = 0.1
_SUPERVISOR, _FOLLOWER = b"redeploy-supervisor", b"journalctl"


class Cost:
    """Adds up, while the block runs, the CPU of the host's processes that watch.

    A sandbox host's processes are this machine's as well: those below its own init are looked at
    ten times a second, so of a short one the last tenth is not seen. The children that a
    supervisor's process has waited for are counted with it; its journalctl by itself.
    """

    def __init__(self, sandbox: SandboxHost) -> None:
        self._init = hosts.leader(sandbox.name)
        self._used: dict[tuple[int, str], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seconds = 0.0

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that they took."""
        return sum(self._used.values())

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self.seconds = time.monotonic() - self._began

    def _look(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            namespace = _namespace(self._init)
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit():
                    with suppress(OSError, IndexError, ValueError):
                        self._take(folder, namespace)

    def _take(self, folder: Path, namespace: str | None) -> None:
        command = (folder / "cmdline").read_bytes()
        ours = _SUPERVISOR in command
        if not (ours or _FOLLOWER in command) or _namespace(folder.name) != namespace:
            return
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        started, used = fields[19], sum(map(int, fields[11 : 15 if ours else 13]))
        self._used[int(folder.name), started] = used / _TICKS


def _namespace(pid: int | str | None) -> str | None:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return None
