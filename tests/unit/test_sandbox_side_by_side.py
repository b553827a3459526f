"""Several versions of this code share a machine: nothing of one takes from another."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import httpx
import pytest

from deployments import sandbox_commands
from deployments.sandbox import hosts, index_server, indexes, pruning, state, story
from deployments.sandbox.errors import WrongWish
from deployments.sandbox.static_files import Server
from tests import second_checkout

PUBLISH = "from deployments.sandbox import indexes; print(indexes.publish())"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the sandbox keep its state in a folder of the test's own."""
    monkeypatch.setenv("VLLM_REDEPLOY_SANDBOX", str(tmp_path / "root"))
    return state.root()


def test_two_versions_of_the_index_are_served_at_once(root: Path, tmp_path: Path) -> None:
    other = second_checkout.make(tmp_path / "other")
    digests = [indexes.publish(), second_checkout.run(other, PUBLISH), indexes.publish()]
    assert digests[0] == digests[2] != digests[1]
    with Server("127.0.0.1", 0, str(root / "indexes")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for digest in digests:
            assert indexes.digest_of(root / "indexes" / digest) == digest
            page = f"http://127.0.0.1:{server.server_port}/{digest}/wheels/nightly/vllm/"
            [described] = httpx.get(f"{page}metadata.json").json()
            wheel = httpx.get(httpx.URL(page).join(described["path"]))
            [mine] = (root / "indexes" / digest / "wheels").rglob(described["filename"])
            assert wheel.content == mine.read_bytes()
        server.shutdown()
    wheels = [next((root / "indexes" / one).rglob("vllm-*dev344*1_*.whl")) for one in digests]
    assert wheels[0].read_bytes() != wheels[1].read_bytes()


def test_what_is_in_use_or_was_used_lately_is_kept(tmp_path: Path) -> None:
    ages = {"used": 30, "now": 0, "yesterday": 1, "third": 2, "old": 8, "older": 9}
    for name, days in ages.items():
        (tmp_path / name / "inside").mkdir(parents=True)
        then = time.time() - days * 86_400
        os.utime(tmp_path / name, (then, then))
    pruning.prune(tmp_path.iterdir(), 2, {"used"})
    assert {one.name for one in tmp_path.iterdir()} == {"used", "now", "yesterday"}
    pruning.prune(tmp_path.iterdir(), 9)
    assert {one.name for one in tmp_path.iterdir()} == {"now", "yesterday"}


def test_a_host_knows_its_index_and_its_checkout(root: Path) -> None:
    ours, others = root / "hosts/ours", root / "hosts/others"
    about = {"address": "10.77.0.254", "data_path": "/opt/vllm"}
    for folder, checkout in ((ours, hosts.CHECKOUT), (others, "/elsewhere")):
        folder.mkdir(parents=True)
        made = about | {"name": folder.name, "checkout": checkout, "index": "0123456789ab"}
        (folder / "host.json").write_text(json.dumps(made))
    assert [(one.name, one.is_ours) for one in hosts.list_hosts()] == [
        ("others", False),
        ("ours", True),
    ]
    assert {one.index for one in hosts.list_hosts()} == {"0123456789ab"}
    assert index_server.url("0123456789ab") == "http://10.77.0.1:8418/0123456789ab"


def test_taking_all_hosts_leaves_those_of_another_checkout(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = root / "hosts/others"
    folder.mkdir(parents=True)
    made = {"name": "others", "address": "10.77.0.254", "checkout": "/elsewhere"}
    (folder / "host.json").write_text(json.dumps(made))
    sandbox_commands.down(all_=True)
    said = capsys.readouterr().out
    assert "others stays, it was made by /elsewhere." in said
    assert "redeploy sandbox down others" in said
    assert folder.exists()


def test_a_name_is_checked_before_anything_is_written(root: Path) -> None:
    with pytest.raises(WrongWish, match="no name for a sandbox host"):
        story.prepare("Foo_!", "kimi")
    with pytest.raises(WrongWish, match="no story 'nope'"):
        story.prepare("foo", "nope")
    assert not root.exists()
