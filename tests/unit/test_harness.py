"""A machine that cannot boot hosts or has no browser: the rest runs, and the lack is loud."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.host
def test_on_a_host(): raise AssertionError("it must not run here")

@pytest.mark.host
@pytest.mark.browser
def test_in_a_browser(): raise AssertionError("it must not run here")

def test_of_its_own(): pass
"""


def session(folder: Path, *options: str, ci: bool = False) -> subprocess.CompletedProcess[str]:
    """Run three tests under the project's conftest, with no programs on the path."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (folder / "test_three.py").write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c"),
            *(str(ROOT / "pyproject.toml"), "--rootdir", str(folder), str(folder), *options),
        ],
        env=environment | {"PATH": "/nowhere"} | ({"CI": "true"} if ci else {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("options", [(), ("--numprocesses", "2")])
def test_what_cannot_run_is_counted_loudly(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = session(tmp_path, *options)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert "1 passed, 2 skipped" in done.stdout
    assert "2 TESTS DID NOT RUN" in done.stdout
    assert "chromium: looks at Prefect's UI. To get it: " in done.stdout


@pytest.mark.parametrize("options", [(), ("--numprocesses", "2")])
def test_in_ci_it_is_a_failure(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = session(tmp_path, *options, ci=True)
    assert "1 passed, 2 skipped" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_tests_on_hosts_come_last(tmp_path: Path) -> None:
    done = session(tmp_path)
    assert done.stdout.splitlines()[0].startswith(".ss")
