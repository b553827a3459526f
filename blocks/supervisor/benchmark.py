"""Measures a served model with vLLM's own benchmark: `benchmark`."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, environment, uv
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

_LONGEST_LIST = 200
_LARGEST_RESULT = 64 << 20


def benchmark(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Run `vllm bench serve` as the environment's owner and return its JSON.

    Raises:
        Failure: It failed, or a request did (vLLM itself only warns of that).
    """
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
        ended = uv.stream_as_owner(owner, uv.as_owner(owner, command))
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
    return value if isinstance(value, dict) else None
