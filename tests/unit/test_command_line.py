"""The command line is quick, and leaves to its caller where Prefect's home is."""

import subprocess
import sys
from pathlib import Path


def test_prefect_is_not_loaded_before_a_command_needs_it() -> None:
    loaded = "import sys, deployments.demo; print('prefect' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", loaded],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
