"""What is remembered of operations does not grow without end, and nothing in use is forgotten."""

import os
import time
from pathlib import Path

import pytest

from blocks.supervisor import store
from blocks.supervisor.pruning import forget_old_operations
from blocks.supervisor.releases import recorder
from blocks.supervisor.store import Store
from blocks.supervisor.work import Work

DAY = 86400


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path)


def done(kept: Store, operation: str, days_ago: float) -> None:
    folder = kept.operations / operation
    store.write(folder / "request.json", {"operation": operation})
    store.write(folder / "result.json", {})
    for path in (folder / "request.json", folder / "result.json", folder, folder.parent):
        os.utime(path, (time.time() - days_ago * DAY,) * 2)


def left(kept: Store) -> list[str]:
    return sorted(one.name for one in kept.operations.iterdir())


def test_old_redeploys_go_and_younger_ones_stay(kept: Store) -> None:
    done(kept, "old/start", 91)
    done(kept, "young/start", 89)
    done(kept, "resumed/start", 91)
    done(kept, "resumed/attempt-1/start", 1)
    assert forget_old_operations(kept) == ["old"]
    assert left(kept) == ["resumed", "young"]


def test_one_that_holds_a_lock_stays(kept: Store) -> None:
    done(kept, "old/start", 91)
    store.write(kept.locks / "x.json", {"holder": "old"})
    assert forget_old_operations(kept) == []
    (kept.locks / "x.json").unlink()
    assert forget_old_operations(kept) == ["old"]


def test_what_a_killed_one_left_behind_goes_with_the_next(kept: Store) -> None:
    done(kept, "old/start", 91)
    (kept.operations / "old").rename(kept.operations / ".pruned-old")
    forget_old_operations(kept)
    assert left(kept) == []


def test_a_record_forgets_and_is_written_even_if_that_fails(kept: Store, tmp_path: Path) -> None:
    done(kept, "old/start", 91)
    record, work = recorder(kept), Work(tmp_path / "work")
    (kept.locks / "x.json").write_text("torn {")
    record({"record": {"id": "a"}}, work)
    assert left(kept) == ["old"]
    (kept.locks / "x.json").unlink()
    path = Path(record({"record": {"id": "b"}}, work)["path"])
    assert left(kept) == []
    assert store.read(path) == {"id": "b"}
