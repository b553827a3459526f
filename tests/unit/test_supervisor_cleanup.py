"""Left-over files go; nothing else does, whatever links lie about."""

import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor.cleanup import cleanup
from blocks.supervisor.work import Work

ME = pwd.getpwuid(os.getuid()).pw_name


def clean(tmp_path: Path, *patterns: str, owner: str = ME, age: float = 0) -> dict[str, Any]:
    asked = {
        "patterns": [f"{tmp_path}/{pattern}" for pattern in patterns],
        "owner": owner,
        "older_than_seconds": age,
    }
    return cleanup(asked, Work(tmp_path / ".operation"))


def make(path: Path, size: int = 10, age: float = 60) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_matching_files_are_removed_and_counted(tmp_path: Path) -> None:
    make(tmp_path / "d" / "a.pt", 100)
    make(tmp_path / "d" / "b.pt", 50)
    stays = make(tmp_path / "d" / "notes.txt")
    hidden = make(tmp_path / "d" / ".c.pt")
    done = clean(tmp_path, "d/*.pt", "d/a.*")
    assert (done["count"], done["bytes"], done["kept"]) == (2, 150, [])
    assert stays.exists()
    assert hidden.exists()


def test_young_ones_and_those_of_others_are_kept_and_named(tmp_path: Path) -> None:
    young = make(tmp_path / "d" / "young.pt", age=5)
    done = clean(tmp_path, "d/*.pt", age=30)
    assert done["kept"] == [{"path": str(young), "why": "too young"}]
    assert young.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_files_of_another_user_are_kept(tmp_path: Path) -> None:
    foreign = make(tmp_path / "d" / "a.pt")
    os.chown(foreign, 65534, 65534)
    assert clean(tmp_path, "d/*.pt")["kept"] == [
        {"path": str(foreign), "why": "owned by user 65534"}
    ]


def test_links_are_neither_removed_nor_followed(tmp_path: Path) -> None:
    precious = make(tmp_path / "precious" / "a.pt")
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "link.pt").symlink_to(precious)
    (folder / "sub").symlink_to(precious.parent)
    (tmp_path / "lnk").symlink_to(precious.parent)
    done = clean(tmp_path, "d/*.pt", "d/*/*.pt", "d/sub/*.pt", "lnk/a.pt")
    assert done["count"] == 0
    assert {one["why"] for one in done["kept"]} == {"a link"}
    assert precious.exists()
    assert (folder / "link.pt").is_symlink()


def test_folders_and_pipes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "d" / "folder.pt").mkdir(parents=True)
    os.mkfifo(tmp_path / "d" / "pipe.pt")
    done = clean(tmp_path, "d/*.pt")
    assert [one["why"] for one in done["kept"]] == ["not a regular file"] * 2


def test_a_second_run_counts_what_the_first_removed(tmp_path: Path) -> None:
    make(tmp_path / "d" / "a.pt", 7)
    first = clean(tmp_path, "d/*.pt")
    later = make(tmp_path / "d" / "later.pt")
    assert clean(tmp_path, "d/*.pt") == first
    assert later.exists()


def test_a_folder_that_is_not_there_is_nothing_to_clean(tmp_path: Path) -> None:
    assert clean(tmp_path, "nowhere/*.pt")["count"] == 0
