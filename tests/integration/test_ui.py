"""A redeploy from the form of Prefect's UI, looked at in headless Chromium."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect, sync_playwright

from tests.integration import on_host
from tests.integration.prefect_api import PrefectApi
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.browser, pytest.mark.timeout(240)]

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LOADED_MS = 30_000
ASKS_AGAIN_MS = 15_000
RUN_SECONDS = 120


@dataclass
class Looking:
    """A page of the UI, what it asked of other machines, and where its pictures go."""

    page: Page
    url: str
    pictures: Path
    abroad: set[str] = field(default_factory=set)

    @property
    def red(self) -> Locator:
        """What failed in the list that is seen."""
        return self.page.locator(".state-list-item--failed")

    @property
    def green(self) -> Locator:
        """What was completed in the list that is seen."""
        return self.page.locator(".state-list-item--completed")

    def guard(self, route: Route) -> None:
        """Let requests to our server through; note and refuse all others."""
        if route.request.url.startswith(f"{self.url}/"):
            route.continue_()
        else:
            self.abroad.add(route.request.url)
            route.abort()

    def note(self, url: str) -> None:
        """Note a connection to another server than ours."""
        if not url.startswith(self.url.replace("http", "ws", 1)):
            self.abroad.add(url)

    def picture(self, name: str) -> None:
        """Take a picture of what is seen now."""
        self.page.wait_for_load_state("networkidle")
        self.page.screenshot(path=self.pictures / f"{name}.png", animations="disabled")

    def tab(self, name: str) -> None:
        """Open one tab of a run's page."""
        self.page.get_by_role("listitem").filter(has_text=name).first.click()

    def wait_for(self, what: Locator, tab: str) -> None:
        """Wait until something is seen on a tab; load the page anew now and then, as a person does.

        After an answer that it could not use the page does not always ask again.
        """
        deadline = time.monotonic() + RUN_SECONDS
        while True:
            try:
                expect(what).to_be_visible(timeout=ASKS_AGAIN_MS)
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            self.page.reload()
            self.tab(tab)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=list(FLAGS)
        )
        yield browser
        browser.close()


@pytest.fixture
def looking(browser: Browser, server: Serving, tmp_path: Path) -> Iterator[Looking]:
    kept = os.environ.get("SCREENSHOTS")
    pictures = Path(kept) if kept else tmp_path
    pictures.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(LOADED_MS)
    looking = Looking(context.new_page(), server.url, pictures)
    context.route("**/*", looking.guard)
    looking.page.on("websocket", lambda socket: looking.note(socket.url))
    yield looking
    context.close()


def test_a_redeploy_is_run_from_the_form_and_seen_to_its_end(
    looking: Looking, kimi: Scene, prefect: PrefectApi
) -> None:
    before = on_host.packages(kimi.host, kimi.story.environment)["vllm"]
    assert before == kimi.story.old.version
    _fill_in_the_form(looking)
    run = _submit(looking)
    _see_attempts_red_and_green(looking)
    _see_the_pages(looking)
    _see_what_failed(looking)
    assert prefect.flow_run(run).state.type == "COMPLETED"
    after = on_host.packages(kimi.host, kimi.story.environment)["vllm"]
    assert after == kimi.story.nightly.version
    assert looking.abroad == set()


def _fill_in_the_form(looking: Looking) -> None:
    page = looking.page
    page.goto(f"{looking.url}/deployments")
    page.get_by_role("link", name="manual").first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    expect(page.get_by_text("The name of a saved service block.")).to_be_visible(timeout=LOADED_MS)
    service = page.locator(".p-label", has_text="The name of a saved service block.").last
    service.locator("textarea").fill("kimi")
    looking.picture("form")
    page.locator(".p-select-button", has_text="repair").locator("button").press("Space")
    page.locator(".p-select-option", has_text="proceed").click()
    expect(page.locator(".p-select-button", has_text="proceed")).to_be_visible()


def _submit(looking: Looking) -> str:
    """Press Submit, again where SQLite was busy, as a person would; then open the run's page."""
    page = looking.page
    while True:
        with page.expect_response(re.compile("/create_flow_run$")) as answered:
            page.get_by_role("button", name="Submit").click()
        if answered.value.status != httpx.codes.SERVICE_UNAVAILABLE:
            break
    run = str(answered.value.json()["id"])
    page.goto(f"{looking.url}/runs/flow-run/{run}")
    return run


def _see_attempts_red_and_green(looking: Looking) -> None:
    page = looking.page
    looking.tab("Subflow Runs")
    looking.wait_for(page.get_by_text("attempt 1"), "Subflow Runs")
    looking.picture("under-way")
    looking.wait_for(page.get_by_role("banner").get_by_text("Completed"), "Subflow Runs")
    page.reload()  # the list of a run that has ended is not asked for again
    looking.tab("Subflow Runs")
    expect(looking.red).to_contain_text("attempt 1")
    expect(looking.green).to_contain_text("attempt 2")
    looking.picture("attempts")


def _see_the_pages(looking: Looking) -> None:
    page = looking.page
    looking.tab("Artifacts")
    for name in ("kimi-plan", "kimi-attempts", "kimi-release"):
        expect(page.get_by_text(name, exact=True)).to_be_visible()
    looking.picture("artifacts")
    page.get_by_text("kimi-release", exact=True).click()
    page.wait_for_url("**/artifacts/**")
    expect(page.get_by_text("31 commits")).to_be_visible()
    looking.picture("release")
    page.go_back()


def _see_what_failed(looking: Looking) -> None:
    page = looking.page
    looking.tab("Subflow Runs")
    page.get_by_role("link", name="attempt 1").click()
    looking.tab("Task Runs")
    expect(looking.red).to_contain_text("wait healthy")
    looking.picture("attempt-1")
    looking.tab("Artifacts")
    page.get_by_text("kimi-diagnosis", exact=True).click()
    page.wait_for_url("**/artifacts/**")
    crash = "flashinfer-cubin version (0.6.3) does not match flashinfer version (0.6.4)"
    expect(page.get_by_text(crash).first).to_be_visible()
    looking.picture("diagnosis")
