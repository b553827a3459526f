"""How a command becomes root's: the words before it, and what its input begins with."""

from pydantic import SecretStr

_NEVER_ASK = ("sudo", "-n")
_BY_PASSWORD = ("sudo", "-k", "-S", "-p", "")
"""`-k`: what sudo has cached of another call counts for nothing, so each call is the same."""


def called(
    words: tuple[str, ...], password: SecretStr | None, data: bytes = b""
) -> tuple[tuple[str, ...], bytes]:
    """Return the argument vector and the input by which sudo is called.

    Args:
        words: A question to sudo itself, or the program and its arguments.
        password: What sudo asks for; None: it must not ask. It becomes the first line of the
            input, which sudo leaves to the program where it does not ask.
        data: What the program reads.
    """
    if password is None:
        return (*_NEVER_ASK, *words), data
    return (*_BY_PASSWORD, *words), password.get_secret_value().encode() + b"\n" + data


def allowing(user: str, program: str, *, password: bool) -> str:
    """Return the line of sudoers that lets a user run one program as root, and no other."""
    return f"{user} ALL=(root) {'' if password else 'NOPASSWD: '}{program}"
