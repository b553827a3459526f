"""What was written is whole, whatever was interrupted."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import store
from blocks.supervisor.store import Store


def logged(kept: Store) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.log_path.read_text().splitlines()]


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    kept = Store(tmp_path)
    kept.log("started", operation="a")
    with kept.log_path.open("ab") as file:
        file.write(b'{"time": 1, "eve')
    kept.log("finished", operation="a")
    first, torn, last = kept.log_path.read_text().splitlines()
    assert torn == '{"time": 1, "eve'
    assert [json.loads(line)["event"] for line in (first, last)] == ["started", "finished"]


def test_lines_of_many_writers_do_not_mix(tmp_path: Path) -> None:
    kept = Store(tmp_path)

    def many() -> None:
        for number in range(20):
            kept.log("started", operation="x" * 500, number=number)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(logged(kept)) == 80


def test_a_failed_write_leaves_the_old_document(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    store.write(path, {"a": 1})
    with pytest.raises(TypeError):
        store.write(path, {"a": object()})
    assert store.read(path) == {"a": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["document.json"]


def test_only_root_may_read_what_is_remembered(tmp_path: Path) -> None:
    kept = Store(tmp_path / "state")
    kept.log("started")
    store.write(kept.operations / "a" / "request.json", {})
    assert kept.root.stat().st_mode & 0o777 == 0o700
    assert kept.log_path.stat().st_mode & 0o777 == 0o600


def test_documents_are_json(tmp_path: Path) -> None:
    store.write(tmp_path / "x", {"é": [1.5, None]})
    assert json.loads((tmp_path / "x").read_text()) == {"é": [1.5, None]}
