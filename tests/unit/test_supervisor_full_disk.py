"""A full disk under the state folder: refused before anything is done, survived afterwards."""

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import processes, scope, store
from blocks.supervisor.failures import Refusal
from blocks.supervisor.locks import Locks
from blocks.supervisor.main import Supervisor
from blocks.supervisor.store import Store
from blocks.supervisor.work import Work
from tests.unit.nowhere import Nowhere

ROOT = Path(__file__).parents[2]
ASKED = {"environment": "/opt/e", "holder": "a", "who": "me", "why": "test", "lease_seconds": 60}
ROOMY, SMALL = "8m", "224k"


@pytest.fixture
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A file system of its own, as small as asked for, for what is remembered; only root has it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={getattr(request, 'param', ROOMY)},mode=700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system of its own: {mounted.stderr.strip()}")
    monkeypatch.setattr(scope, "_chosen", scope.now()._replace(state=folder))
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    with (folder / "filled").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
    assert os.statvfs(folder).f_bfree == 0


def locks(kept: Store) -> Locks:
    return Locks(kept, lambda _: False, lambda _: False)


def stop(operation: str) -> dict[str, Any]:
    given = {"unit": "vllm.service", "timeout_seconds": 1}
    names = {"operation": operation, "verb": "stop", "holder": "a", "environment": "/opt/e"}
    return {**names, "arguments": given, "wait_seconds": 0}


def pieces(kept: Store) -> int:
    return len(list((kept.root / "reserve").iterdir()))


@pytest.mark.parametrize("disk", [SMALL], indirect=True)
def test_without_room_for_the_reserve_there_is_no_lock(disk: Path) -> None:
    kept = Store(disk)
    free = os.statvfs(disk).f_bfree
    with pytest.raises(Refusal, match="reserve") as refused:
        locks(kept).take(ASKED)
    assert refused.value.kind == "no-space"
    assert str(disk) in refused.value.message
    assert "0.2 MiB" in refused.value.message
    assert locks(kept).all() == []
    assert os.statvfs(disk).f_bfree == free


def test_what_is_written_on_a_full_disk_costs_pieces_of_the_reserve(disk: Path) -> None:
    kept = Store(disk)
    locks(kept).take(ASKED)
    whole = pieces(kept)
    fill(disk)
    large = {"lock": "x" * 200_000}
    store.write(kept.operations / "r" / "result.json", large)
    kept.log("finished", operation="r")
    assert store.read(kept.operations / "r" / "result.json") == large
    assert json.loads(kept.log_path.read_text().splitlines()[-1])["event"] == "finished"
    assert 0 < whole - pieces(kept) < whole
    (disk / "filled").unlink()
    locks(kept).take(ASKED)
    assert pieces(kept) == whole


def test_the_guards_unit_finds_room_in_the_reserve_and_nothing_else_is_taken_for_one(
    disk: Path,
) -> None:
    kept = Store(disk)
    locks(kept).take(ASKED)
    anothers = disk / "etc" / "reserve" / "piece-000"
    anothers.parent.mkdir(parents=True)
    anothers.write_bytes(bytes(1 << 16))
    units = disk / "etc" / "systemd"
    units.mkdir()
    whole = pieces(kept)
    fill(disk)
    store.write_text(units / "guard.service", "[Service]\n" * 5000)
    assert (units / "guard.service").stat().st_size == 50_000
    assert pieces(kept) < whole
    assert anothers.exists()


def test_a_used_up_reserve_hinders_no_renewal_and_no_progress(disk: Path) -> None:
    kept = Store(disk)
    locks(kept).take(ASKED)
    for piece in (kept.root / "reserve").iterdir():
        piece.unlink()
    fill(disk)
    locks(kept).renew("/opt/e", "a")
    Work(kept.root).progress(stage="loading")
    with pytest.raises(OSError, match="No space left"):
        store.write(kept.root / "document.json", {})
    held = locks(kept).all()
    assert [one["holder"] for one in held] == ["a"]
    assert not list(kept.locks.glob(".*"))


def test_a_service_is_not_stopped_unless_the_reserve_is_whole(disk: Path) -> None:
    desk = Supervisor(Store(disk), Nowhere())
    desk.answer("lock", ASKED)
    reserve = disk / "reserve"
    next(reserve.iterdir()).unlink()
    fill(disk)
    with pytest.raises(Refusal) as refused:
        desk.answer("ensure", stop("a/stop"))
    assert refused.value.kind == "no-space"
    assert desk.operations.under("a") == []
    (disk / "filled").unlink()
    desk.answer("ensure", stop("a/stop"))
    fill(disk)
    next(reserve.iterdir()).unlink()
    desk.answer("ensure", stop("a/roll-back/stop"))  # stopped before: the way back is not barred
    assert len(desk.operations.under("a")) == 2


def test_who_holds_the_lock_takes_it_again_on_a_full_disk(disk: Path) -> None:
    desk = Supervisor(Store(disk), Nowhere())
    desk.answer("lock", ASKED)
    for piece in (disk / "reserve").iterdir():
        piece.unlink()
    fill(disk)
    assert desk.answer("lock", ASKED)["acquired"]
    assert [one["holder"] for one in desk.locks.all()] == ["a"]
    with pytest.raises(Refusal, match="reserve"):
        desk.answer("lock", {**ASKED, "environment": "/opt/other", "holder": "b"})


def test_who_is_half_done_and_lost_the_lock_goes_on_on_a_full_disk(disk: Path) -> None:
    desk = Supervisor(Store(disk), Nowhere())
    desk.answer("lock", ASKED)
    desk.answer("ensure", stop("a/stop"))
    desk.answer("unlock", {"environment": "/opt/e", "holder": "a"})
    next((disk / "reserve").iterdir()).unlink()
    fill(disk)
    os.truncate(disk / "filled", (disk / "filled").stat().st_size - (8 << 10))
    assert desk.answer("lock", ASKED) == {"acquired": True, "taken_over": None}


def test_a_line_that_did_not_fit_leaves_the_log_as_it_was(disk: Path) -> None:
    kept = Store(disk)
    kept.log("started", operation="a")
    before = kept.log_path.read_bytes()
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        kept.log("finished", operation="x" * 10_000)
    assert kept.log_path.read_bytes() == before


def test_a_program_runs_to_its_end_without_room_for_what_it_prints(disk: Path) -> None:
    fill(disk)
    code = (
        "from blocks.supervisor import processes as p; import sys\n"
        f"p.own_output_to({str(disk / 'filled')!r})\n"
        "ended = p.stream(['seq', '200000'], timeout=30, keep_lines=1)\n"
        "print(ended.exit, ended.output, file=open(sys.argv[1], 'w'))\n"
    )
    said = disk.parent / "said"
    command = [sys.executable, "-c", code, str(said)]
    subprocess.run(command, cwd=ROOT, timeout=60, check=False, capture_output=True)
    assert said.read_text().split() == ["0", "200000"]
    assert processes.run(["true"]).exit == 0


def test_a_person_is_told_that_the_disk_is_full_and_where(disk: Path) -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/opt/e/file")
    told = store.told(error, disk, disk / "not" / "there")
    assert told.kind == "no-space"
    assert "/opt/e/file" in told.message
    assert "8.0 MiB and" in told.message
    assert f"in {disk}" in told.message


def test_another_error_of_the_host_is_one_sentence() -> None:
    told = store.told(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert (told.kind, told.message) == (
        "host-failed",
        "The host itself failed: Input/output error.",
    )
