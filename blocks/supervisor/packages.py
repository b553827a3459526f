"""Resolving and installing packages with uv: `resolve`, `stage`, `install`, `uninstall`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from blocks.supervisor import commands, environment, foreign, processes, uv
from blocks.supervisor.failures import Failure
from blocks.supervisor.ledger import STAGED, Ledger
from blocks.supervisor.work import Work

_LOCKED = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*"
    r"(?:==\s*(?P<version>[^\s;\\]+)|@\s*(?P<url>\S+))"
)
_COPY_SECONDS = 7200
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def locked_versions(lock: str) -> dict[str, str]:
    """Return the versions that a lock names; of a wheel's URL, the one in the file's name."""
    versions = {}
    for line in lock.splitlines():
        found = _LOCKED.match(line)
        if found:
            name = environment.normalised(found.group("name"))
            versions[name] = found.group("version") or _wheel_version(found.group("url"))
    return versions


def resolve(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Resolve requirements for the environment's Python into a lock with hashes."""
    path = environment.require(arguments["environment"])
    owner = environment.owner(path)
    work.progress(stage="resolving")
    with _constraints(arguments["constraints"]) as constraints:
        command = commands.uv_compile(
            uv.require(owner),
            os.fspath(path / "bin" / "python"),
            _sources(arguments),
            constraints,
            arguments["wheels"],
        )
        requirements = "".join(f"{line}\n" for line in arguments["requirements"])
        ended = uv.run_as_owner(owner, command, data=requirements)
    processes.say(f"{foreign.safe(ended.output)}\n{foreign.safe(ended.errors)}")
    if ended.exit != 0:
        words = foreign.last_words(ended.errors, 4000)
        raise Failure(
            "unresolvable",
            f"uv cannot resolve the packages: {first_cause(words)}",
            "Nothing was changed. Check the requirement, the indexes and the constraints.",
            output=words,
            said=words,
        )
    return {"lock": ended.output, "packages": locked_versions(ended.output)}


def first_cause(words: str) -> str:
    """Return why uv cannot resolve: what it begins with, and not all that follows from it."""
    text = " ".join(words.split())
    begins = text.find("Because ")
    if begins < 0:
        return text
    return f"{text[begins:].partition(', we can conclude')[0].rstrip('.')}."


def stage(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Build the new environment beside the old one, complete, while the old one is in use."""
    path = environment.require(arguments["environment"])
    owner = environment.owner(path)
    command = commands.uv_install_lock(
        uv.require(owner),
        os.fspath(path / "bin" / "python"),
        _sources(arguments),
    )
    sibling = Path(f"{path}.{arguments['release']}")
    _make_room(path, sibling, work)
    sibling.mkdir()
    Ledger(work.root, os.fspath(path)).enter(sibling, work.holder, STAGED)
    try:
        work.progress(stage="copying")
        copy = commands.copy_tree(os.fspath(path), os.fspath(sibling))
        ended = processes.stream(copy, timeout=_COPY_SECONDS)
        _check(ended, "stage-failed", f"{path} could not be copied")
        environment.forget_byte_code(sibling)
        given = environment.give_to(owner, sibling)
        work.progress(stage="installing")
        inside = commands.bound(os.fspath(sibling), os.fspath(path), uv.as_owner(owner, command))
        ended = uv.stream_as_owner(owner, inside, data=arguments["lock"])
        _check(ended, "stage-failed", "uv could not install the lock")
        processes.run(("sync", "-f", "--", os.fspath(sibling)), timeout=600)
    except Exception:
        shutil.rmtree(sibling, ignore_errors=True)
        raise
    return {
        "sibling": os.fspath(sibling),
        "packages": environment.versions(sibling),
        "given_to_owner": given,
    }


def install(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Reinstall single packages at an exact version in the environment itself."""
    path = environment.require(arguments["environment"])
    owner = environment.owner(path)
    names = [environment.normalised(one.partition("==")[0]) for one in arguments["packages"]]
    noted = work.recall("before")
    before = noted or _versions_of(path, names)
    work.note("before", before)
    work.progress(stage="installing")
    given = environment.give_to(owner, path)
    command = commands.uv_install(
        uv.require(owner),
        os.fspath(path / "bin" / "python"),
        arguments["packages"],
        _sources(arguments),
    )
    ended = uv.stream_as_owner(owner, uv.as_owner(owner, command))
    _check(ended, "install-failed", f"uv could not install {', '.join(arguments['packages'])}")
    return {"before": before, "after": _versions_of(path, names), "given_to_owner": given}


def uninstall(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Take packages out of the environment itself."""
    path = environment.require(arguments["environment"])
    owner = environment.owner(path)
    names = [environment.normalised(one) for one in arguments["packages"]]
    noted = work.recall("before")
    before = noted or _versions_of(path, names)
    work.note("before", before)
    work.progress(stage="uninstalling")
    command = commands.uv_uninstall(
        uv.require(owner), os.fspath(path / "bin" / "python"), arguments["packages"]
    )
    ended = uv.stream_as_owner(owner, uv.as_owner(owner, command))
    _check(ended, "uninstall-failed", f"uv could not remove {', '.join(names)}")
    return {"before": before, "after": _versions_of(path, names)}


def _sources(arguments: dict[str, Any]) -> commands.Argv:
    return commands.uv_sources(
        arguments["indexes"], arguments["find_links"], arguments["first_indexes"]
    )


@contextlib.contextmanager
def _constraints(lines: list[str]) -> Iterator[str | None]:
    """Yield a file with the constraints that everybody may read, if there are any."""
    if not lines:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="redeploy-") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "constraints.txt")
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        path.chmod(0o644)
        yield os.fspath(path)


def _make_room(path: Path, sibling: Path, work: Work) -> None:
    """Remove what an interrupted run of the same operation left, and nothing else."""
    if path.is_mount():
        raise Failure(
            "mount-point",
            f"{path} is a mount point, so it cannot be exchanged with a folder beside it.",
            "Move the environment into a folder of that file system.",
        )
    begun = work.recall("sibling")
    if sibling.exists() or sibling.is_symlink():
        if begun != {"sibling": os.fspath(sibling)}:
            raise Failure(
                "sibling-exists",
                f"{sibling} is there already and is not this operation's.",
                "Look at what it is, and remove it if it is no longer needed.",
            )
        shutil.rmtree(sibling)
    work.note("sibling", {"sibling": os.fspath(sibling)})


def _check(ended: processes.Ended, kind: str, what: str) -> None:
    if ended.exit == 0:
        return
    words = uv.words_of(ended)
    full = any(text in words for text in _NO_SPACE)
    raise Failure(
        "no-space" if full else kind,
        f"{what}: {words}",
        "Free space on the file system." if full else "output.log of the operation has all of it.",
        output=words,
    )


def _versions_of(path: Path, names: list[str]) -> dict[str, str | None]:
    installed = environment.versions(path)
    return {name: installed.get(name) for name in names}


def _wheel_version(url: str) -> str:
    parts = unquote(urlsplit(url).path).rsplit("/", 1)[-1].split("-")
    return parts[1] if len(parts) > 1 else "unknown"
