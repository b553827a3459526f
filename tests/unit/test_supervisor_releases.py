"""Releases of an environment: which is live, is it what was recorded, which may be removed."""

import os
from pathlib import Path

import pytest

from blocks.supervisor.discard import discard, prune
from blocks.supervisor.failures import Failure
from blocks.supervisor.ledger import FOUND, LIVE, PREVIOUS, REJECTED, STAGED, Ledger
from blocks.supervisor.probe import probe
from blocks.supervisor.seal import holds, seal
from blocks.supervisor.users import parse_units
from blocks.supervisor.work import Work

SHOWN = """\
Id=vllm-a.service
ExecStart={ path=/opt/env/bin/vllm ; argv[]=/opt/env/bin/vllm serve /m ; ignore_errors=no }

Id=vllm-b.service
ExecStart={ path=/usr/bin/env ; argv[]=/usr/bin/env /opt/env/bin/python -m vllm ; pid=0 }

Id=other.service
ExecStart={ path=/opt/env2/bin/vllm ; argv[]=/opt/env2/bin/vllm serve /m ; ignore_errors=no }

Id=none.service
"""


class Site:
    """An environment, and folders beside it that are releases."""

    def __init__(self, root: Path) -> None:
        self.environment = root / "env"
        self.root = root / "state"
        self.ledger = Ledger(self.root, str(self.environment))
        self.work = Work(self.root, root=self.root, holder="r")
        self.make("env", FOUND, LIVE)

    def make(self, name: str, release: str, state: str) -> Path:
        folder = self.environment.with_name(name)
        info = folder / "lib/python3.11/site-packages/vllm-1.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text("vllm/__init__.py,sha256=abc,1\n")
        self.ledger.enter(folder, release, state)
        return folder

    def here(self) -> set[str]:
        return {one.name for one in self.environment.parent.iterdir()} - {"state"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_neither_the_live_nor_the_previous_release_is_removed_nor_what_is_not_ours(
    site: Site,
) -> None:
    for name, state in (
        ("env.previous-1", PREVIOUS),
        ("env.previous-2", PREVIOUS),
        ("env.rejected-1", REJECTED),
        ("env.12345678", STAGED),
    ):
        site.make(name, "r0", state)
    site.environment.with_name("env.mine").mkdir()
    removed = prune({"environment": str(site.environment)}, site.work)["removed"]
    assert site.here() == {"env", "env.previous-2", "env.mine"}
    assert len(removed) == 3
    again = prune({"environment": str(site.environment)}, site.work)
    assert again == {"removed": []}


def test_only_what_this_redeploy_has_staged_is_discarded(site: Site) -> None:
    environment = str(site.environment)
    mine = site.make("env.1", "r", STAGED)
    others = [site.make("env.2", "r2", STAGED), site.make("env.3", "r", PREVIOUS)]
    assert discard({"environment": environment, "sibling": str(mine)}, site.work)["removed"]
    assert not discard({"environment": environment, "sibling": str(mine)}, site.work)["removed"]
    for folder in others:
        with pytest.raises(Failure, match="left there"):
            discard({"environment": environment, "sibling": str(folder)}, site.work)
        assert folder.exists()


@pytest.mark.parametrize("change", ["added", "edited", "deleted", "another-link", "touched"])
def test_a_seal_breaks_when_a_file_is(site: Site, change: str) -> None:
    packages = site.environment / "lib/python3.11/site-packages"
    source, link = packages / "vllm.py", packages / "link"
    source.write_text("fast = 1\n")
    link.symlink_to("vllm.py")
    sealed = seal(site.environment)
    site.ledger.becomes(site.environment, LIVE, sealed)
    assert site.ledger.look()[0]["seal"] == sealed
    assert holds(sealed, site.environment)
    if change == "added":
        (packages / "numpy.py").touch()
    elif change == "edited":
        source.write_text("fast = 10\n")
    elif change == "deleted":
        source.unlink()
    elif change == "another-link":
        link.unlink()
        link.symlink_to("vllm-1.dist-info")
    else:
        os.utime(source, ns=(0, 1))
    assert holds(sealed, site.environment) is False


def test_a_seal_outlives_the_switch_and_the_byte_code(site: Site) -> None:
    sealed = seal(site.environment)
    cache = site.environment / "lib/python3.11/site-packages/__pycache__"
    cache.mkdir()
    (cache / "vllm.pyc").touch()
    moved = site.environment.rename(site.environment.with_name("env.previous-1"))
    assert holds(sealed, moved)
    assert holds("9f86d081884c7d65", moved) is None
    assert holds(None, moved) is None


def test_units_that_begin_in_an_environment_are_found_by_their_commands() -> None:
    assert [name for name, _ in parse_units(SHOWN, "/opt/env")] == [
        "vllm-a.service",
        "vllm-b.service",
    ]


def test_what_can_be_switched_is_found_out_on_empty_folders(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"environment": str(site.environment)}
    before = site.here()
    assert probe(asked) == {"how": "exchange", "problem": None}
    monkeypatch.setattr("blocks.supervisor.switch._RENAME_EXCHANGE", 1 << 20)
    assert probe(asked) == {"how": "two-step", "problem": None}
    assert site.here() == before


def test_a_link_a_mount_and_a_conda_environment_are_not_switched(site: Site) -> None:
    link = site.environment.with_name("link")
    link.symlink_to(site.environment)
    (site.environment / "conda-meta").mkdir()
    for path, word in (
        (link, "is a link"),
        (Path("/proc"), "mount point"),
        (site.environment, "conda"),
        (site.environment.with_name("none"), "not a folder"),
    ):
        found = probe({"environment": str(path)})
        assert found["how"] is None
        assert word in found["problem"]


def test_another_users_environment_is_not_switched_without_root(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody = site.environment.stat().st_uid + 1
    monkeypatch.setattr("os.geteuid", lambda: somebody)
    found = probe({"environment": str(site.environment)})
    assert found["how"] is None
    assert "another user's" in found["problem"]
