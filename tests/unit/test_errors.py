"""Errors survive being stored, and read as three sentences."""

import pickle

from blocks.errors import HostUnreachable, Refused


def test_an_error_says_what_happened_what_was_left_and_what_to_do() -> None:
    assert str(Refused("It is held.", "Wait.")) == (
        "It is held. Nothing was changed on the host. Wait."
    )


def test_fields_survive_pickling() -> None:
    error = HostUnreachable.of("root@gpu:22", "gone")
    error.sent = True
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (again.message, again.address, again.sent) == ("gone", "root@gpu:22", True)
