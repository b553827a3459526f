"""Redeploys that fail, shared by two hosts: most of their time is waiting."""

import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deployments.sandbox import story
from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.on_host import Entry, Logged
from tests.integration.prefect_api import FlowRun
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

Case = tuple[str, str]
"""A kind of failure and the stage in which it comes."""

LONGEST_SECONDS = 600


@dataclass(frozen=True)
class Ended:
    """A redeploy that ended, and what was true on its host right afterwards."""

    run: FlowRun
    scene: Scene
    installed: dict[str, str]
    serves: Any
    unit: dict[str, str]
    record: dict[str, Any]
    log: list[Logged]
    journal: list[Entry]
    start: dict[str, Any]
    watch: dict[str, Any]
    diagnosis: str
    locks: list[str]


class Failing:
    """What becomes of each case."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._ends: dict[Case, Future[Ended]] = {case: Future() for case in cases}
        self._left: queue.SimpleQueue[Case] = queue.SimpleQueue()
        for case in self._ends:
            self._left.put(case)

    def end_of(self, kind: str, stage: str) -> Ended:
        """Return how a case ended; wait for it."""
        return self._ends[kind, stage].result(LONGEST_SECONDS)

    def all_over(self) -> None:
        """Wait until no case is under way."""
        wait(self._ends.values(), LONGEST_SECONDS)

    def work(self, server: Serving, scene: Scene, stopped: threading.Event) -> None:
        """Take one case after the other on one host, which each leaves on its old release."""
        while not stopped.is_set():
            try:
                case = self._left.get_nowait()
            except queue.Empty:
                return
            try:
                self._ends[case].set_result(_fail(server, scene, *case))
            except BaseException as error:  # told to the test that waits for it
                self._ends[case].set_exception(error)


@contextmanager
def shared(server: Serving, scenes: list[Scene], cases: Iterable[Case]) -> Iterator[Failing]:
    """Run the cases on the hosts, one at a time on each, while the block runs."""
    failing, stopped = Failing(cases), threading.Event()
    threads = [
        threading.Thread(target=failing.work, args=(server, scene, stopped)) for scene in scenes
    ]
    for thread in threads:
        thread.start()
    try:
        yield failing
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def _fail(server: Serving, scene: Scene, kind: str, stage: str) -> Ended:
    nightly = scene.story.nightly.version
    story.set_failure(scene.host, kind, stage, version=nightly, after_seconds=0.5)
    try:
        run = redeploy(server, service=scene.service, benchmark=stage == "serving", reinstall=True)
        return _look(server, scene, run)
    finally:
        story.clear_failure(scene.host)


def _look(server: Serving, scene: Scene, run: FlowRun) -> Ended:
    host, story_ = scene.host, scene.story
    start = on_host.answer(host, f"{run.id}/attempt-1/start")["result"]
    pages = [
        str(one.data)
        for nested in (run, *server.api.nested(run.id))
        for one in server.api.artifacts(nested.id)
        if one.key == f"{scene.service}-diagnosis"
    ]
    return Ended(
        run=run,
        scene=scene,
        installed=on_host.packages(host, story_.environment),
        serves=on_host.http(host, f"{scene.url}/version"),
        unit=on_host.unit(host, story_.unit),
        record=on_host.record(host, run.id),
        log=on_host.operations(host, run.id),
        journal=on_host.journal(host, story_.unit, since=start["started"] - 1),
        start=start,
        watch=on_host.answer(host, f"{run.id}/attempt-1/wait-healthy"),
        diagnosis=pages[0] if pages else "",
        locks=on_host.locks(host),
    )
