"""What holds for all tests: hosts are real or the test is not run, and that is said loudly."""

import os

import pytest

from deployments.sandbox.preflight import Missing, missing

_lacking: list[Missing] = []
_not_run: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanting = [item for item in items if item.get_closest_marker("host")]
    if not wanting or config.option.collectonly:
        return
    _lacking.extend(missing())
    if not _lacking:
        return
    why = "; ".join(f"{one.what} is missing" for one in _lacking)
    for item in wanting:
        item.add_marker(pytest.mark.skip(reason=f"cannot boot a host: {why}"))
        _not_run.append(item.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _not_run:
        return
    terminalreporter.section(f"{len(_not_run)} TESTS ON REAL HOSTS DID NOT RUN", red=True, bold=True)
    for one in _lacking:
        terminalreporter.line(f"{one.what}: {one.why}. To get it: {one.how}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _not_run and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
