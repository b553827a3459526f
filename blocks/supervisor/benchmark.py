"""Measures a served model with vLLM's own benchmark: `benchmark`.

The service is watched meanwhile: one that dies or hangs under its benchmark is what failed.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, environment, foreign, uv
from blocks.supervisor.failures import Failure
from blocks.supervisor.processes import Ended
from blocks.supervisor.serving import Served
from blocks.supervisor.work import Work

_LONGEST_LIST = 200
_LARGEST_RESULT = 64 << 20
_LOOKS_IN_PATIENCE = 8
_BAR = re.compile(r"(\d+)/(\d+) \[")
_HINT = "The service was not touched; output.log of the operation has all of it."


def benchmark(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Run `vllm bench serve` as the environment's owner and return its JSON.

    Raises:
        Failure: It failed, or a request did (vLLM itself only warns of that); or the service died
            or hung under it, which is then what failed.
    """
    path = environment.require(arguments["environment"])
    key = work.secrets.get("OPENAI_API_KEY")
    served = Served(
        arguments["unit"], arguments["port"], arguments["model"], key, arguments["environment"]
    )
    ended, measured = _run(path, arguments, served, work)
    failure = _failure(ended, measured, arguments["num_prompts"])
    if failure is not None:
        raise served.hung() or failure from None
    return measured or {}


class _Vigil:
    """Looks after the service while it is measured, and tells how far that is."""

    def __init__(self, served: Served, arguments: dict[str, Any], work: Work) -> None:
        self._served = served
        self._work = work
        self._total = arguments["num_prompts"]
        self._patience = arguments["stall_seconds"]
        self._began = self._moved = self._metrics_at = time.monotonic()
        self._finished = 0
        self._seen: tuple[int, float | None] = (0, None)
        self._work_done: float | None = None

    def hear(self, line: str) -> None:
        """Take in a line of the benchmark: its bar counts the finished requests."""
        bar = _BAR.search(line)
        if bar is not None and int(bar[2]) == self._total:
            self._finished = int(bar[1])

    def look(self) -> None:
        """Look at the service.

        Raises:
            Failure: It has died, or nothing moves and it does not answer.
        """
        died = self._served.death()
        if died is not None:
            raise died
        now = time.monotonic()
        if now - self._metrics_at >= self._patience / _LOOKS_IN_PATIENCE:
            self._metrics_at, self._work_done = now, self._served.work_done()
        if (self._finished, self._work_done) != self._seen:
            self._seen, self._moved = (self._finished, self._work_done), now
        if now - self._moved >= self._patience:
            hung = self._served.hung()
            if hung is not None:
                raise hung
            self._moved = time.monotonic()  # it answers: the benchmark is slow
        self._tell(now)

    def _tell(self, now: float) -> None:
        self._work.progress(
            stage="benchmark",
            detail=f"{self._finished}/{self._total} requests",
            percent=round(100 * self._finished / self._total, 1),
            elapsed=round(now - self._began, 1),
        )


def _run(
    path: Path, arguments: dict[str, Any], served: Served, work: Work
) -> tuple[Ended, dict[str, Any] | None]:
    owner = environment.owner(path)
    vigil = _Vigil(served, arguments, work)
    with tempfile.TemporaryDirectory(prefix="redeploy-bench-") as folder:
        os.chown(folder, owner.uid, owner.gid)
        result = Path(folder, "result.json")
        command = commands.bench_serve(
            os.fspath(path / "bin" / "vllm"),
            served.url,
            arguments["model"],
            arguments["tokenizer"],
            (arguments["num_prompts"], arguments["input_len"], arguments["output_len"]),
            os.fspath(result),
        )
        ended = uv.stream_as_owner(
            owner,
            uv.as_owner(owner, command),
            more={**work.secrets, **_without_proxy(served.address, uv.owner_environment(owner))},
            timeout=arguments["timeout_seconds"],
            on_line=vigil.hear,
            meanwhile=vigil.look,
        )
        return ended, _read(result)


def _without_proxy(address: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep our requests, and their key, from a proxy of the host."""
    before = given.get("no_proxy") or given.get("NO_PROXY")
    without = ",".join(filter(None, (before, "localhost", "127.0.0.1", "::1", address)))
    return {"NO_PROXY": without, "no_proxy": without}


def _failure(ended: Ended, measured: dict[str, Any] | None, prompts: int) -> Failure | None:
    """Return how the benchmark itself failed, if it did."""
    if ended.exit != 0 or measured is None:
        return Failure(
            "benchmark-failed",
            f"vllm bench serve ended with exit status {ended.exit}: {uv.words_of(ended, 1000)}",
            _HINT,
            output=uv.words_of(ended),
        )
    failed, completed = measured.get("failed", 0), measured.get("completed", 0)
    if failed or completed < prompts:
        return Failure(
            "benchmark-failed",
            f"{completed} of {prompts} requests were answered, {failed} failed.",
            _HINT,
            failed=failed,
            completed=completed,
            measured=measured,
        )
    return None


def is_small(value: Any) -> bool:
    """Tell whether a value is worth telling; lists with an item a request are not."""
    return not isinstance(value, (list, dict, str)) or len(value) <= _LONGEST_LIST


def _read(path: Path) -> dict[str, Any] | None:
    """Return what the benchmark wrote; its owner cannot make us read another file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            value = json.loads(file.read(_LARGEST_RESULT))
    except (OSError, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    return {key: foreign.all_safe(one) for key, one in value.items() if is_small(one)}
