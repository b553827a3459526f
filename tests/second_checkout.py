"""A second checkout of this code, in which one byte of a stand-in is another."""

import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
CHANGED = "deployments/sandbox/packages/vllm/standin/model.py"


def make(folder: Path) -> Path:
    """Copy what the sandbox is made of to a folder, change one byte, and return the folder."""
    for part in ("deployments", "flows", "tasks", "blocks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / part, folder / part, ignore=ignored)
    with (folder / CHANGED).open("a") as file:
        file.write("#")
    return folder


def run(checkout: Path, script: str) -> str:
    """Run a script with the code of a checkout and return what it printed."""
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()
