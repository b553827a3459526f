"""A look that hangs is given up and called unknown."""

import json
import os
import time
from pathlib import Path

from blocks.supervisor import patience


def test_what_was_seen() -> None:
    assert patience.within(5, "it", lambda: {"a": [1]}) == ({"a": [1]}, None)


def test_an_error_is_a_problem() -> None:
    looked = patience.within(5, "it", lambda: Path("/nowhere").read_text())
    assert looked.value is None
    assert "No such file" in str(looked.problem)


def test_a_hang_is_a_problem_and_does_not_last() -> None:
    began = time.monotonic()
    looked = patience.within(0.3, "the server", lambda: time.sleep(60))
    assert looked.problem == "the server did not answer within 0.3 s"
    assert time.monotonic() - began < 2


def test_a_look_that_dies_is_a_problem() -> None:
    assert patience.within(5, "it", lambda: os._exit(3)).problem is not None


def test_a_pipe_instead_of_a_config_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert patience.read_json(str(tmp_path / "config.json"), 0.3).problem is not None


def test_more_than_a_pipe_holds(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_text(json.dumps({"x": "y" * 1_000_000}))
    assert len(patience.read_json(str(tmp_path / "big.json"), 5).value["x"]) == 1_000_000
