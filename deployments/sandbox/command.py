"""Runs the machine's own programs: argument vectors only, errors with their own words."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from deployments.sandbox.errors import SandboxError

Argument = str | Path


def run(*argv: Argument, check: bool = True, stdin: bytes = b"") -> str:
    """Run a program and return what it printed on standard output.

    Raises:
        SandboxError: it could not be started or ended with a status other than 0.
    """
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise SandboxError(
            f"{argv[0]} is not installed.", "Install it, then run this again."
        ) from error
    if check and done.returncode != 0:
        raise SandboxError(
            f"`{' '.join(map(str, argv))}` ended with status {done.returncode}:"
            f" {done.stderr.decode(errors='replace').strip()}.",
            "Nothing else was changed; try again after curing it.",
        )
    return done.stdout.decode(errors="replace")


def succeeds(argv: Sequence[Argument]) -> bool:
    """Say whether a program ends with status 0."""
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
