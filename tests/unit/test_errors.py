"""Errors survive being stored, and read as three sentences."""

import pickle

import pytest

from blocks.errors import CommandFailed, HostUnreachable, Refused
from blocks.host import Ran
from tasks.errors import StepFailed
from tasks.report import failure_page


def test_an_error_says_what_happened_what_was_left_and_what_to_do() -> None:
    assert str(Refused("It is held.", "Wait.")) == (
        "It is held. Nothing was changed on the host. Wait."
    )


def test_fields_survive_pickling() -> None:
    error = HostUnreachable.of("root@gpu:22", "gone")
    error.sent = True
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (again.message, again.address, again.sent) == ("gone", "root@gpu:22", True)


UV = """uv cannot resolve the packages:   x No solution found when resolving dependencies:
  ╰─▶ Because there is no version of torch==9 and vllm==1 depends on torch==9, we can
      conclude that your requirements are unsatisfiable."""


def test_a_step_fails_with_our_sentence_and_the_last_that_was_said() -> None:
    failed = StepFailed("plan", "unresolvable", UV, hint="Nothing was changed.", output="x")
    assert str(failed) == (
        "uv cannot resolve the packages: x No solution found when resolving dependencies: ╰─▶ "
        "Because there is no version of torch==9 and vllm==1 depends on torch==9, we can conclude "
        "that your requirements are unsatisfiable. Nothing was changed."
    )
    assert failed.said == UV
    again = pickle.loads(pickle.dumps(failed))  # noqa: S301 - our own bytes
    assert (again.message, again.fields) == (failed.message, {"said": UV, "output": "x"})
    assert UV.splitlines()[1] in failure_page(failed)


@pytest.mark.parametrize(
    ("message", "most"),
    [
        ("cp failed: " + "x" * 4000, 420),
        ("cp failed:\n" + "x\n" * 4000, 220),
        ("y" * 4000, 201),
        ("a: " + "\n".join("z" * 300 for _ in range(9)), 300),
    ],
)
def test_a_wall_of_text_becomes_a_line(message: str, most: int) -> None:
    failed = StepFailed("reinstall", "failed", message)
    assert "\n" not in failed.message
    assert len(failed.message) <= most
    assert failed.said == message


def test_a_command_that_fails_is_told_in_one_line() -> None:
    ran = Ran(("cp", "a", "b"), 1, "", "cp: line one\n" * 99 + "cp: no space left.\n", 0.1)
    with pytest.raises(CommandFailed) as failed:
        ran.check()
    assert failed.value.message.endswith("cp: line one cp: no space left.")
    assert "\n" not in failed.value.message
    assert len(failed.value.message) < 300
    assert failed.value.stderr == ran.stderr


def test_a_short_message_stays_and_ends_once() -> None:
    failed = StepFailed("lock", "held", "It is held. See '../x'.. It runs...")
    assert failed.message == "It is held. See '../x'. It runs..."
    assert StepFailed("lock", "held", "It is held.").fields == {}
