"""Kernels that vLLM itself fetches: `fetch-kernels`."""

from __future__ import annotations

import os
from typing import Any

from blocks.supervisor import commands, environment, uv
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

_SECONDS = 1500


def fetch(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Run the environment's own `vllm download-kernels`, as the environment's owner.

    Raises:
        Failure: This vLLM has no such command, or it failed.
    """
    path = environment.require(arguments["environment"])
    owner = environment.owner(path)
    work.progress(stage="fetching kernels")
    command = commands.vllm_download_kernels(os.fspath(path / "bin" / "vllm"))
    ended = uv.stream_as_owner(owner, uv.as_owner(owner, command), timeout=_SECONDS)
    if ended.exit != 0:
        raise Failure(
            "not-fetched",
            f"vLLM could not fetch the kernels: {uv.words_of(ended)}",
            "output.log of the operation has all of it.",
        )
    return {"said": uv.words_of(ended, 1000)}
