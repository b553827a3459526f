"""Which names are those of secrets: the last word of a name tells, and the one before it."""

from __future__ import annotations

import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ALWAYS = _set(
    "password passwords passwd passphrase passphrases secret secrets credential credentials "
    "apikey apikeys accesskey secretkey privatekey authtoken accesstoken clientsecret"
)
_NOT_ALONE = frozenset({"pwd"})
_IN_CAPITALS = frozenset({"pass", "auth"})
_KEYS = frozenset({"key", "keys"})
_HARMLESS_KEYS = _set(
    "any attribute block cache column config dict each env expected field foreign group hash index "
    "kernel kv layer lookup map metric missing model module num op param parameter partition "
    "primary public request required row shard sort state tensor this unexpected weight "
    "which"
)
_HARMLESS_TOKENS = _set(
    "audio bos cls decode draft each end eos first generated image input invalid last mask max min "
    "new next output pad per placeholder predicted prefill prompt sampled sep special start stop "
    "think total tool unexpected unk video"
)
_TOKENS_OF = frozenset({"access", "api", "auth", "bearer", "hf", "refresh"})


def is_secret(name: str) -> bool:
    """Tell whether what is assigned to a name is a secret: `HF_TOKEN`, `db-password`, `apiKey`."""
    words = _words(name)
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else None
    if last in _KEYS:
        return before not in _HARMLESS_KEYS if before else name.isupper()
    if last == "token":
        return before not in _HARMLESS_TOKENS
    if last == "tokens":
        return before in _TOKENS_OF
    if last in _IN_CAPITALS:
        return before is not None and name.isupper()
    return last in _ALWAYS or (last in _NOT_ALONE and before is not None)


def is_secret_option(name: str) -> bool:
    """Tell whether a command line's option of that name takes a secret; `--key` alone does too."""
    return is_secret(name) or name.lower() in _KEYS


def is_clearly_secret(name: str) -> bool:
    """Tell whether a name is a secret's even in prose, where `token:` may be any word."""
    return is_secret(name) and _words(name) not in (["token"], ["key"], ["keys"])


def is_token(name: str) -> bool:
    """Tell whether a name is that of a token, of which a number is no secret."""
    return _words(name)[-1:] == ["token"]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
