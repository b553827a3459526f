"""A second checkout prepares hosts on the same machine; the first one's go on undisturbed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.sandbox import hosts, layout, ssh, state
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import SMALL
from deployments.sandbox.story import prepare
from tests import second_checkout

pytestmark = pytest.mark.host

OURS, OTHER = "idxa", "idxb"
PREPARE = f"from deployments.sandbox.story import prepare; print(prepare({OTHER!r}, 'small').name)"
DOWN = "from deployments.cli import main; main(['sandbox', 'down', {name!r}])"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxHost, Path]]:
    """Yield a host of this checkout, and the second checkout."""
    other = second_checkout.make(tmp_path_factory.mktemp("checkout"))
    yield prepare(OURS, SMALL.key), other
    for name in (OURS, OTHER):
        hosts.remove(name)


def lock(host: SandboxHost) -> str:
    """Return the nightly as the host's index resolves it, with hashes."""
    argv = ("uv", "pip", "compile", "-", "--no-cache", "--generate-hashes", "--no-annotate")
    asked = f"vllm=={SMALL.nightly.version}\n".encode()
    return ssh.run(host, *argv, *sources(host), stdin=asked).stdout.decode()


def sources(host: SandboxHost) -> tuple[str, ...]:
    nightly = f"{layout.wheel_index(host, SMALL)}/nightly"
    return ("--no-config", "--default-index", layout.simple_index(host, SMALL), "--index", nightly)


def hashes(locked: str) -> dict[str, list[str]]:
    """Return the hashes of every package of a lock."""
    parts = re.split(r"^(\S+)==", locked, flags=re.MULTILINE)[1:]
    return {
        name: sorted(re.findall(r"sha256:\w+", text))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def template_used_last() -> Path:
    found = state.root().glob(f"templates/{SMALL.key}-*")
    return max(found, key=lambda one: one.stat().st_mtime)


def test_a_lock_of_before_installs_after_another_checkout_prepared(
    both: tuple[SandboxHost, Path],
) -> None:
    host, other = both
    locked, template = lock(host), template_used_last()
    server = (state.root() / "index.pid").read_text()

    second_checkout.run(other, PREPARE)

    beside = hosts.get(OTHER)
    assert beside.index_url != host.index_url == hosts.get(OURS).index_url
    assert (state.root() / "index.pid").read_text() == server
    assert template.exists()
    ssh.run(host, "uv", "venv", "--python", "/usr/bin/python3", "/tmp/again")  # noqa: S108
    install = ("uv", "pip", "install", "--python", "/tmp/again", "--no-cache")  # noqa: S108
    exactly = ("--require-hashes", "--no-deps", "-r", "-")
    ssh.run(host, *install, *sources(host), *exactly, stdin=locked.encode())
    ours, theirs = hashes(locked), hashes(lock(beside))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == ["vllm"]


def test_each_checkout_knows_its_own_hosts(both: tuple[SandboxHost, Path]) -> None:
    _, other = both
    made = {one.name: one for one in hosts.list_hosts()}
    assert made[OURS].is_ours
    assert made[OTHER].checkout == str(other)
    second_checkout.run(other, DOWN.format(name=OTHER))
    assert OTHER not in {one.name for one in hosts.list_hosts()}
