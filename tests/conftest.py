"""What holds for all tests: what cannot be run for real is not run, and that is said loudly."""

import os
import shutil
from collections import Counter
from collections.abc import Callable

import pytest

from deployments.sandbox import preflight
from deployments.sandbox.preflight import Missing

_IS_MISSING = "is missing"
_not_run: dict[str, str] = {}


def _missing_for_browser() -> list[Missing]:
    if shutil.which("chromium"):
        return []
    how = preflight.apt_install("chromium")
    return [Missing("chromium", "looks at Prefect's UI", how)]


_NEEDS: dict[str, Callable[[], list[Missing]]] = {
    "host": preflight.missing,
    "browser": _missing_for_browser,
}
"""Markers, and what looks for what a test of that marker needs."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what needs no host first; leave out what this machine cannot run."""
    items.sort(key=lambda item: item.get_closest_marker("host") is not None)
    if config.option.collectonly:
        return
    for marker, look in _NEEDS.items():
        wanting = [item for item in items if item.get_closest_marker(marker)]
        if wanting and (missing := look()):
            why = "; ".join(f"{one.what} {_IS_MISSING}" for one in missing)
            for item in wanting:
                item.add_marker(pytest.mark.skip(reason=why))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _not_run[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _not_run:
        return
    terminalreporter.section(f"{len(_not_run)} TESTS DID NOT RUN", red=True, bold=True)
    for why, count in Counter(_not_run.values()).most_common():
        terminalreporter.line(f"{count}: {why}")
    if any(_IS_MISSING in why for why in _not_run.values()):
        for one in {one.what: one for look in _NEEDS.values() for one in look()}.values():
            terminalreporter.line(f"{one.what}: {one.why}. To get it: {one.how}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, where everything is installed, a test that could not run has failed."""
    could_have = [why for why in _not_run.values() if _IS_MISSING in why or "not installed" in why]
    if could_have and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
