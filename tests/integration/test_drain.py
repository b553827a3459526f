"""Out of the router before the stop and back in when it serves: whole redeploys on a real host."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from deployments.sandbox.stories import STORIES
from deployments.sandbox.story import clear_failure, set_failure
from tests.chaos.checker import violations
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.in_process import redeploy, save_blocks
from tests.integration.polling import until
from tests.integration.prefect_api import FlowRun
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(240)]

KEY = "sk-router-key-8274"
MARKED = "/var/tmp/router.log"  # noqa: S108
BROKEN = "/etc/router-is-broken"
MARK = f"""
test ! -e {BROKEN} || {{ echo "no such upstream, $2" >&2; exit 3; }}
echo "$(date +%s.%N) $*" >> {MARKED}
"""
REQUEST_SECONDS = 4


@dataclass
class Router:
    """A router on the controller: it takes a host out, and has one more request under way there."""

    url: str = ""
    service_url: str = ""
    key: str | None = None
    status: int = 200
    request: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    calls: list[str] = field(default_factory=list)
    answers: list[httpx.Response] = field(default_factory=list)
    ended_at: float = 0

    def ask(self) -> None:
        body = {"prompt": "x", "max_tokens": REQUEST_SECONDS * 100}
        url, key = f"{self.service_url}/v1/completions", {"Authorization": f"Bearer {self.key}"}
        answer = httpx.post(url, json=body, headers=key, timeout=30, trust_env=False)
        self.answers.append(answer)
        self.ended_at = time.time()

    def is_busy(self) -> bool:
        text = httpx.get(f"{self.service_url}/metrics", trust_env=False).text
        return any(
            "num_requests_running" in line and not line.endswith(" 0.0")
            for line in text.splitlines()
            if not line.startswith("#")
        )

    def taken_out(self) -> None:
        if self.request:
            threading.Thread(target=self.ask, daemon=True).start()
            until(self.is_busy, "a request is under way", 10)
        self.held.wait()


def _handler(router: Router) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {KEY}"
            router.calls.append(self.path)
            router.taken_out()
            self.send_response(router.status)
            self.end_headers()
            self.wfile.write(f"{self.headers['Authorization']}: as you say".encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


@pytest.fixture(scope="module")
def routers() -> Iterator[Router]:
    router = Router()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(router)) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        router.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield router
        server.shutdown()


@pytest.fixture(scope="module")
def drained_host(routers: Router, server: Serving, workshop: Path) -> Iterator[Scene]:
    """The small story on a host of its own, behind a router."""
    hooks = f"""
drain_deadline_seconds = 30
drain = {{ url = "{routers.url}/out", bearer = {{ env = "ROUTER_KEY" }} }}
undrain = {{ argv = ["sh", "/etc/router-mark", "in", "a b; reboot"] }}
"""
    asked = {"service": "drained", "extra": QUICK + hooks}
    with (
        pytest.MonkeyPatch.context() as patch,
        on_stage(5, STORIES["small"], workshop, **asked, load_seconds=1) as scene,
    ):
        patch.setenv("ROUTER_KEY", KEY)
        scene.publish(lambda config: save_blocks(server, config))
        yield scene


@pytest.fixture
def scene(drained_host: Scene, routers: Router) -> Scene:
    """The host at its beginning; the router does as it is told and has nothing under way."""
    scene = drained_host.fresh()
    on_host.write(scene.host, "/etc/router-mark", MARK)
    routers.service_url = f"http://{scene.host.address}:{scene.story.port}"
    routers.key = scene.story.api_key
    routers.status, routers.request = 200, False
    routers.calls.clear()
    routers.answers.clear()
    routers.held.set()
    return scene


def marks(scene: Scene) -> list[tuple[float, str]]:
    """Return what the command on the host was called with, and when."""
    if not on_host.exists(scene.host, MARKED):
        return []
    lines = (line.split(" ", 1) for line in on_host.read(scene.host, MARKED).splitlines())
    return [(float(at), words) for at, words in lines]


def at(scene: Scene, run: FlowRun, event: str, step: str) -> float:
    """Return when something happened to an operation, by the host's log."""
    log = on_host.operations(scene.host, run.id)
    return next(line.time for line in log if (line.event, line.step) == (event, step))


def test_a_request_under_way_is_waited_for_and_the_host_put_back_when_it_serves(
    scene: Scene, routers: Router, server: Serving
) -> None:
    routers.request = True
    run = redeploy(server, service=scene.service, benchmark=False)
    assert run.state.type == "COMPLETED", run.state.message
    assert "DRAINED" not in str(run.state.message)
    assert routers.calls == ["/out"]
    (answer,) = routers.answers
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == REQUEST_SECONDS * 100
    assert at(scene, run, "started", "draining-1") < routers.ended_at
    assert routers.ended_at < at(scene, run, "started", "drained-1")
    assert at(scene, run, "finished", "drained-1") <= at(scene, run, "started", "attempt-1/start")
    drained = on_host.answer(scene.host, f"{run.id}/drained-1")["result"]["document"]
    assert (drained["requests_left"], drained["hook"]) == (0, True)
    assert REQUEST_SECONDS - 1 < drained["seconds"] < REQUEST_SECONDS + 8
    ((when, words),) = marks(scene)
    assert words == "in a b; reboot"
    assert when > at(scene, run, "finished", "attempt-1/wait-healthy")
    tasks = {task.name: task.state.type for task in server.api.tasks(run.id)}
    assert (tasks["drain"], tasks["undrain"]) == ("COMPLETED", "COMPLETED")


def test_a_host_that_is_rolled_back_is_put_back(
    scene: Scene, routers: Router, server: Serving
) -> None:
    set_failure(scene.host, "oom", "profile", version=scene.story.nightly.version)
    run = redeploy(server, service=scene.service, benchmark=False)
    assert run.state.type == "FAILED"
    assert str(run.state.message).startswith("Rolled back")
    assert "DRAINED" not in str(run.state.message)
    ((when, _words),) = marks(scene)
    assert when > at(scene, run, "finished", "revert")
    assert routers.calls == ["/out"]


def test_a_host_that_does_not_serve_is_left_out_and_that_is_said(
    scene: Scene, server: Serving
) -> None:
    set_failure(scene.host, "oom", "profile")
    run = redeploy(server, service=scene.service, benchmark=False)
    clear_failure(scene.host)
    assert run.state.type == "FAILED"
    assert "STILL DRAINED: the service does not serve" in str(run.state.message)
    assert "When it serves: `sh /etc/router-mark in 'a b; reboot'` on the host." in str(
        run.state.message
    )
    assert marks(scene) == []


def test_an_undrain_that_fails_is_said_loudly(scene: Scene, server: Serving) -> None:
    on_host.write(scene.host, BROKEN, "")
    run = redeploy(server, service=scene.service, benchmark=False)
    said = str(run.state.message)
    assert run.state.type == "FAILED"
    assert "STILL DRAINED: the undrain hook failed: " in said
    assert "exit status 3: no such upstream, a b; reboot" in said
    assert on_host.record(scene.host, run.id)["verdict"] == said
    installed = on_host.packages(scene.host, scene.story.environment)
    assert installed["vllm"] == scene.story.nightly.version
    tasks = {task.name: task.state.type for task in server.api.tasks(run.id)}
    assert tasks["undrain"] == "FAILED"


def test_a_drain_that_fails_touches_nothing_and_is_undone(
    scene: Scene, routers: Router, server: Serving
) -> None:
    routers.status = 403
    before = on_host.unit(scene.host, scene.story.unit)
    run = redeploy(server, service=scene.service, benchmark=False)
    assert run.state.type == "FAILED"
    assert "was answered with status 403: ***: as you say." in str(run.state.message)
    assert "DRAINED" not in str(run.state.message)
    assert on_host.unit(scene.host, scene.story.unit) == before
    assert [words for _, words in marks(scene)] == ["in a b; reboot"]
    assert "attempt-1/start" not in on_host.started(scene.host, run.id)


def test_a_run_that_is_killed_in_its_hook_goes_on_and_undrains_once(
    scene: Scene, routers: Router, server: Serving
) -> None:
    routers.held.clear()
    run = server.api.start(service=scene.service, benchmark=False)
    until(lambda: bool(routers.calls), "the drain hook is called", 60)
    server.kill(run.id)
    server.api.wait(run.id, "CRASHED", seconds=30)
    routers.held.set()
    until(lambda: _resumed(server, run.id), "the run goes on", 60, pause=0.5)
    ended = server.api.wait(run.id, seconds=120)
    assert ended.state.type == "COMPLETED", ended.state.message
    assert routers.calls == ["/out", "/out"]
    assert len(marks(scene)) == 1
    assert set(on_host.started(scene.host, run.id).values()) == {1}


def test_a_run_that_is_cancelled_in_its_hook_is_put_back(
    scene: Scene, routers: Router, server: Serving
) -> None:
    before = on_host.unit(scene.host, scene.story.unit)
    routers.held.clear()
    run = server.api.start(service=scene.service, benchmark=False)
    until(lambda: bool(routers.calls), "the drain hook is called", 60)
    server.api.cancel(run.id)
    server.api.wait(run.id, "CANCELLED", seconds=60)
    assert [words for _, words in marks(scene)] == ["in a b; reboot"]
    assert on_host.unit(scene.host, scene.story.unit) == before
    assert violations(scene) == []


def _resumed(server: Serving, run: str) -> bool:
    """Resume a run until it is under way again: a crash can be reported twice."""
    found = server.api.flow_run(run)
    if found.state.type == "CRASHED" and found.run_count == 1:
        server.api.resume(run)
    return found.run_count > 1


def test_the_key_of_the_router_is_nowhere(scene: Scene, routers: Router, server: Serving) -> None:
    routers.status = 500
    run = redeploy(server, service=scene.service, benchmark=False)
    assert "***: as you say" in str(run.state.message)
    blocks = server.api.ask("POST", "block_documents/filter", {}).json()
    (document,) = [one for one in blocks if one["name"] == scene.service]
    assert document["data"]["drain"]["url"] == f"{routers.url}/out"
    assert KEY not in json.dumps(blocks)
    remembered = (on_host.REMEMBERED, "/run", "/tmp", "/var/tmp")  # noqa: S108
    assert on_host.files_with(scene.host, KEY, *remembered) == []
    assert KEY not in on_host.whole_journal(scene.host)
    grep = ["grep", "-rlF", "-e", KEY, "--", str(server.home), str(server.output)]
    found = subprocess.run(grep, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert not any(KEY in line for line in server.api.logs(run.id))
