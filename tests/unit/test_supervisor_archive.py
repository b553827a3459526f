"""The archive is one runnable file, the same bytes every time, for old Pythons too."""

import importlib
import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from blocks.supervisor import main
from blocks.supervisor.arguments import DOING
from blocks.supervisor.launcher import SystemdLauncher
from blocks.supervisor.main import Supervisor
from blocks.supervisor.store import Store
from blocks.supervisor_archive import archive
from blocks.supervisor_entry import unpacked

VERMIN = Path(sysconfig.get_path("scripts"), "vermin")
ROOT = Path(__file__).parents[2]
CARRIED = ("blocks/supervisor", "blocks/supervisor_entry.py", "tasks/startup")


def test_the_same_sources_give_the_same_bytes() -> None:
    first = archive()
    archive.cache_clear()
    assert archive() == first


def test_it_runs_from_anywhere_and_knows_its_version(tmp_path: Path) -> None:
    program = tmp_path / "redeploy-supervisor"
    program.write_bytes(archive().data)
    code = (
        "import json, sys, zipimport; sys.argv = [sys.argv[1]]; sys.path.insert(0, sys.argv[0]);"
        "from blocks.supervisor.main import _version; print(json.dumps(_version({})))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["version"] == archive().version


def test_it_carries_only_what_the_host_needs(tmp_path: Path) -> None:
    program = tmp_path / "archive"
    program.write_bytes(archive().data)
    names = zipfile.ZipFile(program).namelist()
    assert {"__main__.py", "pynvml.py", "tasks/startup/stages.py"} <= set(names)
    strangers = ("__main__.py", "pynvml.py", "blocks/__init__.py", "tasks/__init__.py")
    assert all(
        name in strangers or name.startswith(("blocks/supervisor/", "tasks/startup/"))
        for name in names
    )


def test_python_3_9_is_enough() -> None:
    done = subprocess.run(
        [VERMIN, "-t=3.9-", "--no-tips", "--violations", *CARRIED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_verb_leads_to_a_function(tmp_path: Path) -> None:
    doers = Supervisor(Store(tmp_path), SystemdLauncher()).doers
    assert doers.keys() == DOING.keys()
    for where in (*main.DOERS.values(), *main.READERS.values()):
        module, name = where.split(".")
        assert callable(getattr(importlib.import_module(f"blocks.supervisor.{module}"), name))


def test_it_runs_from_an_unpacked_copy_that_is_made_once(tmp_path: Path) -> None:
    program, code = tmp_path / "archive", tmp_path / "run" / "code"
    program.write_bytes(archive().data)
    (tmp_path / "run").mkdir()
    first = unpacked(program, code)
    assert first is not None
    assert (first / "blocks/supervisor/main.py").read_text()
    (first / "mark").touch()
    assert unpacked(program, code) == first
    assert (first / "mark").exists()
    assert code.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in code.iterdir()] == [first.name]


def test_another_archive_has_another_copy_and_old_ones_go(tmp_path: Path) -> None:
    code = tmp_path / "code"
    made = []
    for number in range(5):
        program = tmp_path / "archive"
        program.unlink(missing_ok=True)
        program.write_bytes(archive().data + b"\0" * number)
        made.append(unpacked(program, code))
    assert len(set(made)) == 5
    assert {path for path in made if path and path.exists()} == set(made[-3:])


def test_where_no_copy_can_be_made_there_is_none(tmp_path: Path) -> None:
    program = tmp_path / "archive"
    program.write_bytes(archive().data)
    (tmp_path / "file").touch()
    assert unpacked(program, tmp_path / "file" / "code") is None
    program.write_bytes(b"no archive")
    assert unpacked(program, tmp_path / "code") is None
    assert list((tmp_path / "code").iterdir()) == []
