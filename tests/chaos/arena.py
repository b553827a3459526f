"""A host, its own `redeploy serve`, and one cell of the matrix after the other."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deployments.sandbox import story
from deployments.sandbox.stories import STORIES
from tests.chaos.cells import Cell
from tests.chaos.checker import violations
from tests.chaos.faults import STRIKE, Site, heal
from tests.chaos.index import Index
from tests.integration import on_host
from tests.integration.polling import until
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving, serving

LOAD_SECONDS = 3
SHORT = """
start_deadline_seconds = 40
gpu_wait_seconds = 5
grace_seconds = 6
stop_timeout_seconds = 30
"""
PATIENCE_SECONDS = 6
SETTLED_SECONDS = 150

STRIKES_AT = {
    ("before-stop", "staged"): ("started", "reinstall"),
    ("before-stop", "classic"): ("finished", "open"),
    ("switch-open", "staged"): ("started", "attempt-1/start"),
    ("switch-open", "classic"): ("started", "switch"),
    ("loading", "staged"): ("started", "attempt-1/wait-healthy"),
    ("failed", "staged"): ("failed", "attempt-1/wait-healthy"),
    ("rolling-back", "staged"): ("started", "revert"),
}
FAILING = ("failed", "rolling-back")


@dataclass
class Arena:
    """A host whose time-outs are short."""

    scene: Scene
    index: Index
    folder: Path

    def play(self, cell: Cell) -> list[str]:
        """Let a cell happen, and return what is wrong on the host afterwards."""
        self.scene.fresh()
        self.index.struck = 0
        if cell.fault == "disk-full":
            on_host.mount_small(self.scene.host, on_host.REMEMBERED, "16m")
        if cell.fault == "power-cut":  # this file system loses what was not synced
            beside = f"{self.scene.story.data_path}/remembered"
            on_host.lay_on(self.scene.host, on_host.REMEMBERED, beside)
        version = self.scene.story.nightly.version
        if cell.phase in FAILING:
            story.set_failure(self.scene.host, "crash", "loading", version=version)
        with self._served() as server:
            site = Site(self.scene, server, self.index, "")
            try:
                self._strike(cell, site)
                settled(self.scene)
            finally:
                heal(site)
        return violations(self.scene) + self._index(cell)

    def _index(self, cell: Cell) -> list[str]:
        """Before the stop somebody has to meet a broken index, afterwards nobody may."""
        if cell.fault not in ("index-gone", "corrupt-wheel"):
            return []
        if cell.phase == "before-stop":
            return [] if self.index.struck else ["nobody met the fault"]
        return ["the index was asked after the stop"] if self.index.struck else []

    def _strike(self, cell: Cell, site: Site) -> None:
        with on_host.following(self.scene.host) as log:
            asked = {"service": self.scene.service, "strategy": cell.strategy}
            site.run = site.server.api.start(**asked, benchmark=False).id
            log.wait_for(*STRIKES_AT[cell.phase, cell.strategy], seconds=90)
            STRIKE[cell.fault](site)

    def _served(self) -> AbstractContextManager[Serving]:
        """Return a server of its own, which saves the configuration itself."""
        short = {"READY_PATIENCE": "5", "LEASE": "60"}
        variables = {f"VLLM_REDEPLOY_{name}_SECONDS": value for name, value in short.items()}
        return serving(self.scene.config, self.folder, **variables)


@contextmanager
def arena(number: int, folder: Path) -> Iterator[Arena]:
    """Boot a host for cells, and take it away again."""
    own = folder / str(number)
    own.mkdir()
    with on_stage(number, STORIES["small"], own, extra=SHORT, load_seconds=LOAD_SECONDS) as scene:
        index = Index(scene.host.index_url)
        scene.rewrite = lambda text: _impatient(text, scene.host.index_url, index.url)
        scene.describe()
        try:
            yield Arena(scene, index, own)
        finally:
            index.close()


def settled(scene: Scene) -> None:
    """Wait until nothing is under way on a host any more, whoever ends it."""
    until(lambda: _is_settled(scene), f"{scene.host.name} has settled", SETTLED_SECONDS, pause=0.5)


def _is_settled(scene: Scene) -> bool:
    try:
        left = on_host.matching(scene.host, f"{on_host.REMEMBERED}/open/*.json")
        left += on_host.matching(scene.host, f"{on_host.REMEMBERED}/locks/*.json")
        return not left and not on_host.units(scene.host, "redeploy-*")
    except AssertionError:
        return False  # it is down, or cut off


def _impatient(text: str, index: str, instead: str) -> str:
    head, _, services = text.replace(index, instead).partition("\n[services.")
    return f"{head}link_patience_seconds = {PATIENCE_SECONDS}\n\n[services.{services}"
