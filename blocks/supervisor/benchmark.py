"""Measures a served model with vLLM's own benchmark: `benchmark`."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, environment, foreign, units, uv
from blocks.supervisor.failures import Failure
from blocks.supervisor.journal import journal
from blocks.supervisor.watch import verdict
from blocks.supervisor.work import Work

_LONGEST_LIST = 200
_LARGEST_RESULT = 64 << 20
_LAST_LINES = 80
_LINGERS_SECONDS = 8


def benchmark(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Run `vllm bench serve` as the environment's owner and return its JSON.

    Raises:
        Failure: It failed, or a request did (vLLM itself only warns of that), or the service
            died under it, which is then what failed.
    """
    unit, invocation = arguments["unit"], units.state(arguments["unit"])["invocation_id"]
    try:
        return _measure(arguments, work)
    except Failure as failure:
        raise _of_the_service(unit, invocation) or failure from failure


def _measure(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    path = environment.require(arguments["environment"])
    owner = environment.owner(path)
    work.progress(stage="benchmark")
    with tempfile.TemporaryDirectory(prefix="redeploy-bench-") as folder:
        os.chown(folder, owner.uid, owner.gid)
        result = Path(folder, "result.json")
        command = commands.bench_serve(
            os.fspath(path / "bin" / "vllm"),
            arguments["port"],
            arguments["model"],
            arguments["tokenizer"],
            (arguments["num_prompts"], arguments["input_len"], arguments["output_len"]),
            os.fspath(result),
        )
        ended = uv.stream_as_owner(
            owner, uv.as_owner(owner, command), timeout=arguments["timeout_seconds"]
        )
        measured = _read(result)
    if ended.exit != 0 or measured is None:
        raise Failure(
            "benchmark-failed",
            f"vllm bench serve ended with exit status {ended.exit}: {uv.words_of(ended, 1000)}",
            "The service was not touched; output.log of the operation has all of it.",
            output=uv.words_of(ended),
        )
    found = {key: value for key, value in measured.items() if is_small(value)}
    failed, completed = found.get("failed", 0), found.get("completed", 0)
    if failed or completed < arguments["num_prompts"]:
        raise Failure(
            "benchmark-failed",
            f"{completed} of {arguments['num_prompts']} requests were answered, {failed} failed.",
            "The service was not touched; output.log of the operation has all of it.",
            failed=failed,
            completed=completed,
            measured=found,
        )
    return found


def _of_the_service(unit: str, invocation: str) -> Failure | None:
    """Return the service's death as the failure; a server outlives its engine for some seconds."""
    deadline = time.monotonic() + _LINGERS_SECONDS
    while (died := verdict(state := units.state(unit), invocation)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.25)
    asked = {"unit": unit, "invocation": invocation, "since": None, "lines": _LAST_LINES}
    lines = [entry["message"] for entry in journal(asked)["entries"]]
    return Failure(
        died,
        f"{unit} died while it was measured.",
        f"journalctl -u {unit} _SYSTEMD_INVOCATION_ID={invocation}",
        last_stage="serving",
        last_lines=lines,
        invocation=invocation,
        unit=state,
    )


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
    return foreign.all_safe(value) if isinstance(value, dict) else None
