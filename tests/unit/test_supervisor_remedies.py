"""What the host does for a remedy: only its own files, its own processes, its owner's folders."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import caches, cgroups, drop_ins, left_overs, processes, scope, tools, units
from blocks.supervisor.arguments import DOING, checked
from blocks.supervisor.failures import Failure, Refusal
from blocks.supervisor.processes import Ended
from blocks.supervisor.work import Work

UNIT = "vllm.service"


@pytest.fixture
def units_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for unit files, and a systemd that always says yes."""
    here = scope.now()._replace(units=tmp_path / "system")
    monkeypatch.setattr(scope, "now", lambda: here)
    monkeypatch.setattr(processes, "run", lambda *_, **__: Ended(0, "", ""))
    return here.units / f"{UNIT}.d"


def add(tmp_path: Path, holder: str, name: str = "too-many-open-files") -> Path:
    asked = {"unit": UNIT, "name": name, "lines": ["LimitNOFILE=65536"]}
    path: str = drop_ins.add(asked, Work(tmp_path, holder=holder))["path"]
    return Path(path)


def test_a_drop_in_is_a_file_of_its_own_after_all_others(
    tmp_path: Path, units_folder: Path
) -> None:
    units_folder.mkdir(parents=True)
    theirs = units_folder / "99-mine.conf"
    theirs.write_text("[Service]\nLimitNOFILE=1024\n")

    path = add(tmp_path, "r1")

    assert sorted(units_folder.iterdir())[-1] == path
    assert path.read_text().splitlines()[1:] == ["[Service]", "LimitNOFILE=65536"]
    assert path.stat().st_mode & 0o777 == 0o644
    assert theirs.read_text() == "[Service]\nLimitNOFILE=1024\n"


def test_a_second_run_writes_the_same_file(tmp_path: Path, units_folder: Path) -> None:
    assert add(tmp_path, "r1") == add(tmp_path, "r1")
    assert len(list(units_folder.iterdir())) == 1
    assert units_folder.stat().st_mode & 0o777 == 0o755


def test_the_way_back_removes_what_its_own_redeploy_added(
    tmp_path: Path, units_folder: Path
) -> None:
    earlier, mine = add(tmp_path, "r1"), add(tmp_path, "r2")
    copied = units_folder / "zz-vllm-redeploy-by-hand.conf"
    copied.write_text("# mine\n" + mine.read_text())

    assert drop_ins.take_away(UNIT, {"r2", "r3"}) == [os.fspath(mine)]
    assert sorted(units_folder.iterdir()) == sorted([earlier, copied])
    assert drop_ins.take_away(UNIT, {"r2", "r3"}) == []


@pytest.mark.parametrize(
    "line",
    [
        "ExecStart=/bin/sh",
        "Environment=LD_PRELOAD=/tmp/x.so",
        "Environment=FLASHINFER_DISABLE_VERSION_CHECK=1",
        "Environment=VLLM_X=1 LD_PRELOAD=/tmp/x.so",
        "Environment=VLLM_X=%h",
        "LimitNOFILE=1\nUser=root",
        "User=root",
    ],
)
def test_no_other_line_is_taken(line: str) -> None:
    with pytest.raises(Refusal):
        checked("drop-in", {"unit": UNIT, "name": "x", "lines": [line]}, DOING)


def state(active: str = "inactive") -> dict[str, Any]:
    return {"active_state": active, "control_group": "/system.slice/vllm.service"}


@pytest.mark.parametrize("active", ["active", "activating", "deactivating", "reloading"])
def test_what_runs_is_no_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: str
) -> None:
    monkeypatch.setattr(cgroups, "members", lambda _: {1})
    monkeypatch.setattr(units, "state", lambda _: state(active))

    assert left_overs.left_overs(state(active)) == []
    with pytest.raises(Failure, match="no left-over"):
        left_overs.end({"unit": UNIT}, Work(tmp_path))


def test_only_what_is_in_the_control_group_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        subprocess.Popen(["sleep", "60"]) as ours,
        subprocess.Popen(["sleep", "60"]) as moved,
    ):
        # Between the look and the kill one has left the group: another has its number, say.
        seen = iter([{ours.pid, moved.pid}, {ours.pid, moved.pid}, set()])
        monkeypatch.setattr(units, "state", lambda _: state())
        monkeypatch.setattr(cgroups, "members", lambda _: next(seen))
        monkeypatch.setattr(cgroups, "holds", lambda _, pid: pid == ours.pid)

        ended = left_overs.end({"unit": UNIT}, Work(tmp_path))["ended"]

        assert {one["pid"] for one in ended} == {ours.pid, moved.pid}
        assert ours.wait(10) == -9
        assert moved.poll() is None
        moved.kill()


def built(tmp_path: Path) -> Path:
    folder = tmp_path / ".cache/torch_extensions/py312/xgrammar"
    folder.mkdir(parents=True)
    return folder


def plain_mv(command: Sequence[str], **_: object) -> Ended:
    done = subprocess.run(command[command.index("mv") :], check=False)
    return Ended(done.returncode, "", "")


def test_a_broken_build_is_set_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "run", plain_mv)
    folder, work = built(tmp_path), Work(tmp_path)
    Path(f"{folder}.aside-1").mkdir()

    moved = caches.set_aside({"path": os.fspath(folder)}, work)

    assert moved["aside"] == f"{folder}.aside-2"
    assert not folder.exists()
    assert caches.set_aside({"path": os.fspath(folder)}, work) == moved


@pytest.mark.parametrize("where", ["elsewhere", "link", "linked parent", "missing"])
def test_nothing_else_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(processes, "run", plain_mv)
    folder = built(tmp_path)
    link = tmp_path / ".cache/torch_extensions/link"
    link.symlink_to(folder.parent)
    path = {
        "elsewhere": tmp_path / "data",
        "link": link,
        "linked parent": link / "xgrammar",
        "missing": folder / "gone",
    }[where]
    (tmp_path / "data").mkdir()

    with pytest.raises(Failure, match="left where it is"):
        caches.set_aside({"path": os.fspath(path)}, Work(tmp_path))

    assert folder.is_dir()
    assert (tmp_path / "data").is_dir()


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder


def test_a_service_finds_what_its_own_variables_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Sequence[str], **_: object) -> Ended:
        if "show-environment" in command:
            return Ended(0, "LANG=C\nPATH=/nowhere\n", "")
        return Ended(0, f'Environment=PATH={tmp_path}/a "X=a b" CUDA_HOME={tmp_path}/cuda\n', "")

    monkeypatch.setattr(processes, "run", run)
    program(tmp_path / "env/bin", "ninja")
    program(tmp_path / "cuda/bin", "nvcc")

    found = tools.facts(UNIT, [], f"{tmp_path}/env")
    assert found == {"path": f"{tmp_path}/a", "nvcc": True, "ninja": False, "own_ninja": True}

    file = tmp_path / "vllm.env"
    file.write_text(f"PATH={tmp_path}/env/bin\n")
    assert tools.facts(UNIT, [os.fspath(file)], f"{tmp_path}/env")["ninja"] is True
