"""A prepared host is what its story says, its faults are real, and nothing stays behind."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pytest

from blocks import config
from blocks.service import Service
from deployments.sandbox import catalog, cli, command, hosts, layout, network, preflight, ssh, state
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import STORIES, Story
from deployments.sandbox.story import clear_failure, prepare, set_failure
from tasks.startup import sanity
from tests.integration.polling import until

pytestmark = pytest.mark.host

NAME = "sbx"
EXCHANGE = """
import ctypes, os, sys
os.makedirs(sys.argv[1] + ".a"); os.makedirs(sys.argv[1] + ".b/inside")
call = ctypes.CDLL(None, use_errno=True).renameat2
status = call(-100, (sys.argv[1] + ".a").encode(), -100, (sys.argv[1] + ".b").encode(), 2)
print(status, os.listdir(sys.argv[1] + ".a"))
"""

POST = """
import sys, urllib.request
url, data, key = (sys.argv[1:] + [None, None])[:3]
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
request = urllib.request.Request(url, data and data.encode(), headers)
print(urllib.request.urlopen(request, timeout=5).read().decode())
"""


@pytest.fixture(scope="module", params=["kimi", "second"])
def laid_out(request: pytest.FixtureRequest) -> Iterator[tuple[SandboxHost, Story]]:
    story = STORIES[request.param]
    yield prepare(NAME, story.key), story
    hosts.remove(NAME)


def shell(host: SandboxHost, script: str) -> str:
    """Run a script on the host and return what it printed."""
    return ssh.output(host, "bash", "-c", script).strip()


def served(host: SandboxHost, story: Story, path: str) -> httpx.Response:
    return httpx.get(f"http://{host.address}:{story.port}{path}", timeout=5)


def test_the_old_release_is_served(laid_out: tuple[SandboxHost, Story]) -> None:
    host, story = laid_out
    assert served(host, story, "/version").json() == {"version": story.old.version}
    models = served(host, story, "/v1/models").json()["data"]
    assert [model["id"] for model in models] == [story.served_model]
    shown = shell(host, f"systemctl show -p User,Restart,KillMode,DropInPaths {story.unit}")
    assert f"User={story.user}" in shown
    assert "Restart=always" in shown
    assert "10-limits.conf" in shown


def test_the_environment_holds_its_packages_and_cubin(laid_out: tuple[SandboxHost, Story]) -> None:
    host, story = laid_out
    listed = shell(host, f"uv pip list --format json --python {story.environment} 2>/dev/null")
    installed = {one["name"]: one["version"] for one in json.loads(listed)}
    assert installed == catalog.packages(story.old) | {"flashinfer-cubin": story.cubin}


def test_debug_code_went_through_hard_links_into_the_cache(
    laid_out: tuple[SandboxHost, Story],
) -> None:
    host, story = laid_out
    for path in story.debug_code:
        found = shell(host, f"find {story.data_path} -xdev -path '*/{path}' -printf '%i %p\\n'")
        inodes = {line.split()[0] for line in found.splitlines()}
        assert len(found.splitlines()) == 2
        assert len(inodes) == 1
        assert "/uv-cache/" in found
        assert "/site-packages/" in found
    site = f"{story.environment}/lib/python3*/site-packages"
    for marker in story.markers:
        assert shell(host, f"grep -rlF -- '{marker}' {site}")


def test_dumps_lie_beside_what_must_stay(laid_out: tuple[SandboxHost, Story]) -> None:
    host, story = laid_out
    pattern = story.debug_files.pattern
    found = shell(host, f"find {pattern} -type f -user {story.user} -printf '%s %b %p\\n'")
    rows = [line.split() for line in found.splitlines()]
    assert len(rows) == story.debug_files.count
    assert sum(int(size) for size, _, _ in rows) == story.debug_files.total_bytes
    assert all(int(blocks) * 512 >= int(size) for size, blocks, _ in rows)
    for paths in layout.bystanders(story).values():
        for path in paths:
            shell(host, f"test -e {path} -o -L {path}")


def test_the_model_has_no_forbidden_key(laid_out: tuple[SandboxHost, Story]) -> None:
    host, story = laid_out
    config = json.loads(shell(host, f"cat {story.model}/config.json"))
    assert config == dict(story.model_config)
    assert not set(story.forbidden_config_keys) & set(config)


def test_the_environment_can_be_exchanged_at_once(laid_out: tuple[SandboxHost, Story]) -> None:
    host, story = laid_out
    assert shell(host, f"stat -f -c %T {story.environment}") == "ext2/ext3"
    probe = f"{story.data_path}/probe"
    done = ssh.run(host, "python3", "-", probe, stdin=EXCHANGE.encode())
    assert done.stdout.decode().strip() == "0 ['inside']"


def test_the_bridge_leads_nowhere_else(laid_out: tuple[SandboxHost, Story]) -> None:
    host, _ = laid_out
    assert shell(host, "ip route show default") == ""
    assert (
        shell(host, f"timeout 5 bash -c '</dev/tcp/{network.GATEWAY}/8418' && echo open") == "open"
    )


def test_the_service_survives_reboot_and_kill(laid_out: tuple[SandboxHost, Story]) -> None:
    host, story = laid_out
    hosts.reboot(NAME)
    layout.wait_until_healthy(host, story)
    hosts.kill(NAME)
    assert [one.state for one in hosts.list_hosts() if one.name == NAME] == ["down"]
    hosts.up(NAME)
    layout.wait_until_healthy(host, story)
    assert shell(host, f"ls {story.debug_files.pattern} | wc -l") == str(
        story.debug_files.count + 2
    )


def test_a_kill_takes_what_was_not_synced_from_the_environments_file_system(
    laid_out: tuple[SandboxHost, Story],
) -> None:
    host, story = laid_out
    synced, lost, kept = (f"{story.data_path}/synced", f"{story.data_path}/lost", "/root/kept")
    shell(host, f"echo safe >{synced}; sync -f {synced}")
    writing = f"while :; do echo >>{lost}; echo >>{kept}; done"
    shell(host, f"systemd-run --quiet sh -c '{writing}'")
    until(lambda: ssh.run(host, "test", "-s", kept, check=False).returncode == 0, "lines", 10)
    hosts.kill(NAME)
    hosts.up(NAME)
    written, left = shell(host, f"cat {kept} | wc -l; cat {lost} 2>/dev/null | wc -l").split()
    assert int(left) < int(written)
    assert shell(host, f"cat {synced}") == "safe"
    layout.wait_until_healthy(host, story)


def test_a_cut_cable_swallows_packets_until_it_is_healed(
    laid_out: tuple[SandboxHost, Story],
) -> None:
    host, story = laid_out
    hosts.cut(NAME)
    with pytest.raises(httpx.ConnectTimeout):
        httpx.get(f"http://{host.address}:{story.port}/health", timeout=1)
    assert network.is_cut(NAME)
    hosts.heal(NAME)
    layout.wait_until_healthy(host, story, 10)


def test_a_failure_ends_the_unit_until_it_is_cleared(laid_out: tuple[SandboxHost, Story]) -> None:
    host, story = laid_out
    set_failure(host, "crash", "import", version=story.old.version)
    ssh.run(host, "systemctl", "restart", story.unit)
    restarts = f"systemctl show -P NRestarts {story.unit}"
    until(lambda: int(shell(host, restarts)) > 0, "systemd restarts it", 15)
    clear_failure(host)
    layout.wait_until_healthy(host, story, 20)


def test_the_second_preparation_is_quick_and_starts_anew(
    laid_out: tuple[SandboxHost, Story],
) -> None:
    host, story = laid_out
    shell(host, f"rm -rf {story.environment} {story.debug_files.pattern}")
    began = time.monotonic()
    host = prepare(NAME, story.key)  # it may have another address
    assert time.monotonic() - began < 15
    assert served(host, story, "/version").json() == {"version": story.old.version}
    assert shell(host, f"ls {story.debug_files.pattern} | wc -l") == str(
        story.debug_files.count + 2
    )


@pytest.fixture(scope="module")
def embedding() -> Iterator[tuple[SandboxHost, Service]]:
    """Yield a host of the story `embed` and its service, as the configuration describes it."""
    path = cli.sandbox_up("sbxe", "embed")
    yield hosts.get("sbxe"), config.load(path).service("embed")
    hosts.remove("sbxe")


def test_an_embedding_service_answers_on_loopback_with_its_key(
    embedding: tuple[SandboxHost, Service],
) -> None:
    host, service = embedding
    assert service.api_key is not None
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{host.address}:{service.port}/health", timeout=5)
    document = json.dumps({"model": service.served_model, "input": ["red", "green"]})
    post = (*("python3", "-c", POST), f"http://127.0.0.1:{service.port}/v1/embeddings", document)
    key = service.api_key.get_secret_value()
    answer = json.loads(ssh.output(host, *post, key))
    vectors = [entry["embedding"] for entry in answer["data"]]
    assert sanity.judge_embeddings(vectors, asked=2) is None
    refused = ssh.run(host, *post, "wrong", check=False)
    assert b"401" in refused.stderr


def test_answers_are_wrong_on_demand_and_metrics_have_their_old_names(
    embedding: tuple[SandboxHost, Service],
) -> None:
    host, service = embedding
    story = STORIES["embed"]
    set_failure(host, "wrong-version", "serving", version=story.old.version)
    ssh.run(host, "systemctl", "restart", story.unit)
    layout.wait_until_healthy(host, story)
    url = f"http://127.0.0.1:{service.port}"
    get = ("python3", "-c", POST)
    assert json.loads(ssh.output(host, *get, f"{url}/version"))["version"] != story.old.version
    assert "vllm:gpu_cache_usage_perc" in ssh.output(host, *get, f"{url}/metrics")
    clear_failure(host)


def test_nothing_stays_of_a_removed_host() -> None:
    hosts.up("gone")
    hosts.remove("gone")
    script = "losetup -a; ip netns list; ip -br link; mount; ls /sys/fs/cgroup/*"
    left = command.run("bash", "-c", script, check=False)
    assert "gone" not in left
    assert not state.host_folder("gone").exists()
    assert preflight.missing() == []
