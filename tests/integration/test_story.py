"""The whole story of the product: through the crash that it was born from, on a real host."""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from deployments.sandbox import layout, ssh
from tests.integration import on_host
from tests.integration.in_process import redeploy
from tests.integration.prefect_api import FlowRun, PrefectApi
from tests.integration.scenes import Scene
from tests.integration.serving import Serving

pytestmark = [pytest.mark.host, pytest.mark.timeout(180)]

ACTS = {"stop", "stage", "cleanup", "switch", "start", "install"}


@dataclass(frozen=True)
class Told:
    """The story after it was told once: its run, its record, and what was there before."""

    scene: Scene
    run: FlowRun
    record: dict[str, Any]
    foreign: dict[str, str]


@pytest.fixture(scope="module")
def told(kimi_host: Scene, prefect: PrefectApi) -> Told:
    scene = kimi_host.fresh()
    foreign = _foreign_files(scene)
    run = prefect.start(service=scene.service, skew="proceed", requested_by="a test", reason="why")
    run = prefect.wait(run.id, seconds=150)
    assert run.state.type == "COMPLETED", run.state.message
    return Told(scene, run, on_host.record(scene.host, run.id), foreign)


def test_all_packages_are_those_of_the_nightly_and_cubin_was_cured(told: Told) -> None:
    installed = on_host.packages(told.scene.host, told.scene.story.environment)
    assert len(installed) == 164
    assert installed["vllm"] == "0.16.0rc2.dev344+gea5f903f8"
    assert installed["flashinfer-python"] == installed["flashinfer-cubin"] == "0.6.4"
    assert installed["sentry-sdk"] == "2.53.0"


def test_all_were_locked_and_cubin_at_the_version_it_had(told: Told) -> None:
    staged = on_host.answer(told.scene.host, f"{told.run.id}/reinstall")["result"]["packages"]
    assert len(staged) == 164
    assert staged["flashinfer-cubin"] == "0.6.3"
    assert told.record["locked"] == 164
    assert told.record["packages"] == 164
    assert len(re.findall(r"^\S+==\S+|^\S+ @ ", told.record["lock"], re.MULTILINE)) == 164


def test_the_record_says_what_moved(told: Told) -> None:
    changes = {one["name"]: one for one in told.record["changes"]["changes"]}
    assert changes["sentry-sdk"]["change"] == "down"
    assert changes["sentry-sdk"]["before"] == "3.0.0a7"
    assert changes["vllm"]["change"] == "up"
    assert changes["flashinfer-cubin"]["after"] == "0.6.4"
    assert sum(one["change"] == "reinstalled" for one in changes.values()) > 100
    assert told.record["delta"]["count"] == 31
    assert told.record["unplanned"] == []


def test_the_record_says_who_and_why_and_the_lock_is_given_back(told: Told) -> None:
    assert told.record["who"] == "a test"
    assert told.record["why"] == "why"
    assert told.record["result"] == "live"
    assert on_host.locks(told.scene.host) == []


def test_the_first_attempt_failed_by_the_crash_and_the_second_was_healthy(told: Told) -> None:
    first, second = told.record["attempts"]
    assert first["outcome"] == "failed"
    assert first["failed_step"] == "wait-healthy"
    assert first["remedy"] == ["flashinfer-cubin==0.6.4"]
    assert second["outcome"] == "healthy"
    error = on_host.answer(told.scene.host, f"{told.run.id}/attempt-1/wait-healthy")["error"]
    assert error["kind"] == "crashed"
    assert any(
        "flashinfer-cubin version (0.6.3) does not match flashinfer version (0.6.4)" in line
        for line in error["last_lines"]
    )


def test_the_journal_holds_the_crash_and_then_the_start(told: Told) -> None:
    messages = [entry.message for entry in on_host.journal(told.scene.host, told.scene.story.unit)]
    crash = next(i for i, line in enumerate(messages) if "flashinfer-cubin version (0.6.3)" in line)
    ready = max(i for i, line in enumerate(messages) if "Application startup complete." in line)
    assert crash < ready


def test_the_service_serves_the_nightly(told: Told) -> None:
    scene = told.scene
    assert on_host.http(scene.host, f"{scene.url}/version") == {"version": told.record["after"]}
    unit = on_host.unit(scene.host, scene.story.unit)
    assert (unit["ActiveState"], unit["SubState"], unit["NRestarts"]) == ("active", "running", "0")
    assert unit["NeedDaemonReload"] == "no"


def test_no_file_differs_and_no_debug_code_is_left(told: Told) -> None:
    host, story = told.scene.host, told.scene.story
    assert on_host.differing(host, story.environment) == []
    assert on_host.lines_with(host, f"{story.environment}/lib", story.markers) == []
    for path in story.debug_code:
        assert "tried:" not in on_host.read(host, _installed(told.scene, path))


def test_the_trap_was_there_uvs_cache_held_the_debug_code(told: Told) -> None:
    """And the environment that was taken out still holds it: it was not cleaned in place."""
    host, story = told.scene.host, told.scene.story
    assert told.foreign["debug code in uv's cache"] != ""
    previous = told.record["previous"]
    assert on_host.lines_with(host, f"{previous}/lib", story.markers)


def test_the_debug_files_are_gone_and_counted(told: Told) -> None:
    story = told.scene.story
    assert len(told.record["files_removed"]) == story.debug_files.count == 35
    assert told.record["bytes_removed"] == story.debug_files.total_bytes == 65_000_000
    left = on_host.matching(told.scene.host, "/tmp/layer_*.pt")  # noqa: S108
    assert left == []


def test_foreign_files_were_not_touched(told: Told) -> None:
    now = _foreign_files(told.scene)
    assert {path: now[path] for path in now if path.startswith("/")} == {
        path: told.foreign[path] for path in told.foreign if path.startswith("/")
    }


def test_the_model_config_has_no_forbidden_key(told: Told) -> None:
    text = on_host.read(told.scene.host, f"{told.scene.story.model}/config.json")
    assert not any(key in text for key in told.scene.story.forbidden_config_keys)


def test_the_benchmark_is_vllms_own(told: Told) -> None:
    measured = told.record["benchmark"]
    assert measured["completed"] == measured["num_prompts"] == 50
    assert measured["failed"] == 0
    assert {"median_ttft_ms", "p99_itl_ms", "mean_e2el_ms", "output_throughput"} <= set(measured)


def test_every_operation_was_started_once(told: Told) -> None:
    started = on_host.started(told.scene.host, told.run.id)
    assert set(started.values()) == {1}
    before = {"snapshot", "resolve", "plan", "open", "reinstall", "verify", "cleanup"}
    assert before | {"attempt-1/start"} <= set(started)
    assert {"attempt-1/wait-healthy", "attempt-1/fix", "attempt-2/wait-healthy"} <= set(started)


def test_the_times_add_up(told: Told) -> None:
    steps = told.record["steps"]
    assert all(one["host_seconds"] >= 0 for one in steps)
    waited = [one for one in steps if one["seconds"] is not None]
    assert all(one["seconds"] >= one["host_seconds"] for one in waited)
    assert sum(one["host_seconds"] for one in steps) <= told.record["seconds"] + 1
    assert 0 < told.record["stopped_seconds"] < told.record["seconds"]
    assert sum(one["seconds"] for one in waited) <= told.record["seconds"] + 1


def test_the_pages_are_red_and_green(told: Told, prefect: PrefectApi) -> None:
    first, second = prefect.nested(told.run.id)
    assert (first.name, first.state.type) == ("attempt 1", "FAILED")
    assert (second.name, second.state.type) == ("attempt 2", "COMPLETED")
    of_first = {task.name: task.state.type for task in prefect.tasks(first.id)}
    assert of_first == {"start": "COMPLETED", "wait healthy": "FAILED", "diagnose": "COMPLETED"}
    of_second = {task.name: task.state.type for task in prefect.tasks(second.id)}
    assert of_second == {"restart": "COMPLETED", "wait healthy": "COMPLETED"}


def test_the_artifacts_tell_the_story(told: Told, prefect: PrefectApi) -> None:
    pages = {one.key: str(one.data) for one in prefect.artifacts(told.run.id)}
    assert {"kimi-plan", "kimi-release", "kimi-attempts"} <= set(pages)
    assert "31 commits" in pages["kimi-release"]
    first = prefect.nested(told.run.id)[0]
    diagnosis = {one.key: str(one.data) for one in prefect.artifacts(first.id)}["kimi-diagnosis"]
    assert "does not match flashinfer version (0.6.4)" in diagnosis


def test_a_skew_is_refused_before_the_service_is_touched(kimi: Scene, prefect: PrefectApi) -> None:
    before = on_host.unit(kimi.host, kimi.story.unit)
    run = prefect.wait(prefect.start(service=kimi.service, skew="refuse").id)
    assert run.state.type == "FAILED"
    assert "flashinfer-cubin" in str(run.state.message)
    assert "Nothing was changed on the host." in str(run.state.message)
    _assert_untouched(kimi, before, run)


def test_a_skew_is_repaired_in_the_staging_so_that_no_start_fails(
    kimi: Scene, prefect: PrefectApi
) -> None:
    run = prefect.wait(prefect.start(service=kimi.service, benchmark=False).id, seconds=150)
    assert run.state.message == "Serving 0.16.0rc2.dev344+gea5f903f8 after one attempt."
    record = on_host.record(kimi.host, run.id)
    assert [(one["package"], one["before"], one["version"]) for one in record["repairs"]] == [
        ("flashinfer-cubin", "0.6.3", "0.6.4")
    ]
    installed = on_host.packages(kimi.host, kimi.story.environment)
    assert installed["flashinfer-python"] == installed["flashinfer-cubin"] == "0.6.4"
    crashed = [
        one for one in on_host.journal(kimi.host, kimi.story.unit) if "Traceback" in one.message
    ]
    assert crashed == []


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"target": "previous"}, "go back to it by a rollback"),
        ({"target": "0.99.0"}, "0.99.0"),
    ],
)
def test_what_is_not_there_is_refused_with_a_sentence(
    kimi_host: Scene, server: Serving, wish: dict[str, str], sentence: str
) -> None:
    before = on_host.unit(kimi_host.host, kimi_host.story.unit)
    run = redeploy(server, service=kimi_host.service, **wish)
    assert run.state.type == "FAILED"
    assert sentence in str(run.state.message)
    _assert_untouched(kimi_host, before, run)


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"skw": "proceed"}, "skw"),
        ({"attempts": 6}, "request.attempts"),
        ({"attempts": "many"}, "request.attempts"),
        ({"strategy": "quick"}, "request.strategy"),
        ({"target": "; reboot"}, "request.target"),
    ],
)
def test_the_api_refuses_wrong_parameters_by_name(
    prefect: PrefectApi, wish: dict[str, object], field: str
) -> None:
    answer = prefect.request_run(service="kimi", **wish)
    assert answer.status_code == 409
    assert field in answer.json()["detail"]


def _assert_untouched(scene: Scene, before: dict[str, str], run: FlowRun) -> None:
    after = on_host.unit(scene.host, scene.story.unit)
    assert (after["MainPID"], after["InvocationID"]) == (before["MainPID"], before["InvocationID"])
    done = {line.verb for line in on_host.operations(scene.host, run.id)}
    assert not done & ACTS
    assert on_host.locks(scene.host) == []


def _foreign_files(scene: Scene) -> dict[str, str]:
    """Return what must outlive the redeploy, path by path, and whether the cache is poisoned."""
    paths = [path for kind in layout.bystanders(scene.story).values() for path in kind]
    paths.append(f"{layout.home(scene.story)}/kept.pt")
    looked = {
        path: ssh.output(scene.host, "stat", "--format=%i %s %Y %U %F", path) for path in paths
    }
    cache = f"{scene.story.data_path}/uv-cache"
    poisoned = on_host.lines_with(scene.host, cache, scene.story.markers)
    return {**looked, "debug code in uv's cache": "\n".join(poisoned)}


def _installed(scene: Scene, path: str) -> str:
    found = on_host.matching(scene.host, f"{on_host.site_packages(scene.story.environment)}/{path}")
    return found[0]
