"""Ready means serving: what looks ready and is not, and what is ready in its own way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.sandbox import story
from deployments.sandbox.stories import STORIES
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.in_process import redeploy, save_blocks, say_the_rest
from tests.integration.polling import until
from tests.integration.prefect_api import FlowRun
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(240)]

LIES = {
    "garbage": "'!' over and over",
    "broken": "broken characters",
    "wrong-version": "/version says",
    "lies": "timed out",
    "dead": "answers 500",
}


@pytest.fixture(scope="module")
def scene(server: Serving, workshop: Path) -> Iterator[Scene]:
    """The small story, whose systemd may restart it once on the way."""
    asked = {"service": "small-once", "extra": QUICK + "restarts_tolerated = 1\n"}
    with on_stage(6, STORIES["small"], workshop, **asked, load_seconds=1) as made:
        made.publish(lambda config: save_blocks(server, config))
        yield made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_REDEPLOY_READY_PATIENCE_SECONDS", "4")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", LIES)
def test_a_service_that_only_looks_ready_is_not_kept(
    scene: Scene, server: Serving, kind: str
) -> None:
    story.set_failure(scene.host, kind, "serving", version=scene.story.nightly.version)
    try:
        run = redeploy(server, service=scene.service, benchmark=False, reinstall=True)
    finally:
        story.clear_failure(scene.host)
    assert run.state.type == "FAILED"
    said = str(run.state.message)
    assert said.startswith(f"Rolled back to {scene.story.old.version}; serving."), said
    assert LIES[kind] in said
    steps = {
        (one["phase"], one["step"]): one for one in on_host.record(scene.host, run.id)["steps"]
    }
    assert steps["attempt-1", "wait-healthy"]["outcome"] == "failed"
    assert steps["", "roll-back"]["outcome"] == "ok"
    assert on_host.http(scene.host, f"{scene.url}/version") == {"version": scene.story.old.version}


def test_one_restart_and_then_fine_is_said(scene: Scene, server: Serving) -> None:
    run = _with_one_crash(scene, server)
    assert run.state.type == "COMPLETED", run.state.message
    assert "systemd restarted it once on the way." in str(run.state.message)
    record = on_host.record(scene.host, run.id)
    assert [one["outcome"] for one in record["attempts"]] == ["healthy"]
    assert record["starts"][0]["restarts"] == 1
    assert record["starts"][0]["seconds"]["loading weights"] > 0
    assert "vllm:gpu_cache_usage_perc (now vllm:kv_cache_usage_perc)" in record["metrics_gone"]


def test_the_next_start_is_measured_by_the_one_before(scene: Scene, server: Serving) -> None:
    run = redeploy(server, service=scene.service, benchmark=False, reinstall=True)
    assert run.state.type == "COMPLETED", run.state.message
    say_the_rest(server)

    def said() -> list[str]:
        lines = [line for one in server.api.nested(run.id) for line in server.api.logs(one.id)]
        return [one for one in lines if "ready in about" in one and "earlier start" in one]

    until(said, "how long it still takes, by the start before", 30)
    shown = [one for nested in server.api.nested(run.id) for one in server.api.artifacts(nested.id)]
    assert any(one.key == f"{scene.service}-start-up" for one in shown)


def test_a_restart_that_is_not_tolerated_ends_the_attempt_at_once(
    small_host: Scene, server: Serving
) -> None:
    scene = small_host.fresh()
    run = _with_one_crash(scene, server)
    assert run.state.type == "FAILED"
    assert "crashed" in str(run.state.message)
    watched = on_host.answer(scene.host, f"{run.id}/attempt-1/wait-healthy")["error"]
    assert watched["noticed_after_seconds"] < 3


def test_an_embedding_service_with_a_key_on_loopback_only(server: Serving, workshop: Path) -> None:
    quick = "benchmark = { num_prompts = 4 }\n"
    with on_stage(7, STORIES["embed"], workshop, extra=quick) as made:
        save_blocks(server, made.config)
        run = redeploy(server, service=made.service, benchmark=False)
        assert run.state.type == "COMPLETED", run.state.message
        started = on_host.record(made.host, run.id)["starts"][0]
        assert (started["kind"], started["host"]) == ("embedding", made.host.name)


def _with_one_crash(scene: Scene, server: Serving) -> FlowRun:
    version = scene.story.nightly.version
    story.set_failure(scene.host, "crash", "import", version=version, starts=1)
    try:
        return redeploy(server, service=scene.service, benchmark=False, reinstall=True)
    finally:
        story.clear_failure(scene.host)


def test_a_service_in_whose_place_another_listens_is_not_stopped(
    scene: Scene, server: Serving
) -> None:
    """As an old vLLM that outlived its unit does: it shares the port, and answers some requests."""
    before = on_host.unit(scene.host, scene.story.unit)["InvocationID"]
    with on_host.beside_the_unit(scene.host, scene.story):
        run = redeploy(server, service=scene.service, benchmark=False, reinstall=True)
    assert run.state.type == "FAILED"
    said = str(run.state.message)
    assert "Another process listens in place of vllm-small.service" in said
    assert "The service was not stopped." in said
    assert on_host.unit(scene.host, scene.story.unit)["InvocationID"] == before
    assert on_host.locks(scene.host) == []
