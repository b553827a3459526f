"""A Python environment, read from its files; nothing of it is run."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from blocks.supervisor.failures import Failure
from blocks.supervisor.secrets import redacted


class Owner(NamedTuple):
    """Who owns an environment, and so installs into it."""

    name: str
    uid: int
    gid: int
    home: str


def normalised(name: str) -> str:
    """Return a package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def require(environment: str) -> Path:
    """Return the environment's folder.

    Raises:
        Failure: It is a link, is not there, or has no Python.
    """
    path = Path(environment)
    if path.is_symlink():
        problem = f"is a link to {path.readlink()}; name the folder itself"
    elif not path.is_dir():
        problem = "is not there"
    elif not (path / "bin" / "python").exists():
        problem = "has no bin/python"
    else:
        return path
    raise Failure(
        "no-environment", f"{environment} {problem}.", "Correct the environment of the service."
    )


def owner(path: Path) -> Owner:
    """Return who owns a folder.

    Raises:
        Failure: It belongs to a number that is no user here.
    """
    found = path.stat()
    try:
        user = pwd.getpwuid(found.st_uid)
    except KeyError:
        raise Failure(
            "no-owner",
            f"{path} belongs to user {found.st_uid}, who is not known here.",
            "Give it to a user of this host (chown -R).",
        ) from None
    return Owner(user.pw_name, found.st_uid, found.st_gid, user.pw_dir)


def give_to(owner: Owner, path: Path) -> int:
    """Give what others own in an environment to its owner; return how much that was.

    A service that runs as root leaves byte code that the owner could not replace.
    """
    given = 0
    for _, folders, files, descriptor in os.fwalk(path, follow_symlinks=False):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                if os.lstat(name, dir_fd=descriptor).st_uid != owner.uid:
                    os.chown(name, owner.uid, owner.gid, dir_fd=descriptor, follow_symlinks=False)
                    given += 1
    return given


def forget_byte_code(path: Path) -> None:
    """Remove the compiled code of an environment; no RECORD vouches for it.

    Python takes it for that of any source file of the same size and second, and it would run
    whatever was once compiled into it, however clean the sources are.
    """
    for parent, folders, _ in os.walk(path):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
            shutil.rmtree(os.path.join(parent, "__pycache__"), ignore_errors=True)  # noqa: PTH118


def site_packages(path: Path) -> list[Path]:
    """Return the folders with the environment's packages."""
    return sorted(path.glob("lib/python3.*/site-packages"))


def dist_infos(path: Path) -> list[Path]:
    """Return the `*.dist-info` folders of an environment."""
    return [info for site in site_packages(path) for info in sorted(site.glob("*.dist-info"))]


def packages(path: Path) -> list[dict[str, Any]]:
    """Return the installed distributions, from their METADATA."""
    found = (_package(info) for info in dist_infos(path))
    return sorted((one for one in found if one), key=lambda one: str(one["name"]))


def versions(path: Path) -> dict[str, str]:
    """Return the installed versions by name."""
    return {one["name"]: one["version"] for one in packages(path)}


def headers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the header fields of a METADATA file, up to the first empty line."""
    for line in text.splitlines():
        if not line:
            return
        name, separator, value = line.partition(": ")
        if separator and not name.startswith((" ", "\t")):
            yield name.lower(), value.strip()


def python_version(path: Path) -> str | None:
    """Return the version that pyvenv.cfg names, else the one of the packages' folder."""
    with contextlib.suppress(OSError):
        for line in (path / "pyvenv.cfg").read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip() in ("version", "version_info"):
                return ".".join(value.strip().split(".")[:3])
    sites = site_packages(path)
    return sites[0].parent.name[len("python") :] if sites else None


def file_system(path: Path) -> str | None:
    """Return the type of the file system that a path lies on."""
    best, kind = "", None
    with contextlib.suppress(OSError):
        real = os.fspath(path.resolve())
        for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
            left, _, right = line.partition(" - ")
            mount = left.split()[4].replace("\\040", " ")
            inside = mount == "/" or real == mount or real.startswith(f"{mount}/")
            if inside and len(mount) >= len(best):
                best, kind = mount, right.split()[0]
    return kind


def used_bytes(path: Path) -> int:
    """Return what a copy of a folder takes on the disk at most; links are not followed."""
    total, folders, seen = 0, [os.fspath(path)], set()
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    folders.append(entry.path)
                elif found.st_ino not in seen:
                    seen.add(found.st_ino)
                    total += found.st_blocks * 512
    return total


def facts(environment: str) -> dict[str, Any]:
    """Return what is known of an environment without running it."""
    path = Path(environment)
    there = path.is_dir() and not path.is_symlink()
    python = path / "bin" / "python"
    if not there:
        return {"path": environment, "exists": False, "packages": []}
    disk = os.statvfs(path)
    found = path.stat()
    return {
        "path": environment,
        "exists": True,
        "owner": _name_or_number(found.st_uid),
        "group": found.st_gid,
        "python": os.fspath(python) if python.exists() else None,
        "python_version": python_version(path),
        "filesystem": file_system(path),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "packages": packages(path),
    }


def _package(info: Path) -> dict[str, Any] | None:
    try:
        fields = list(headers((info / "METADATA").read_text("utf-8", "replace")))
    except OSError:
        return None
    names = [value for name, value in fields if name == "name"]
    numbers = [value for name, value in fields if name == "version"]
    if not names or not numbers:
        return None
    return {
        "name": normalised(names[0]),
        "version": numbers[0],
        "requires": [redacted(value) for name, value in fields if name == "requires-dist"],
        "installer": _line(info / "INSTALLER"),
        "origin": _origin(info / "direct_url.json"),
    }


def _line(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text("utf-8", "replace").strip()[:200] or None
    return None


def _origin(path: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError):
        url = json.loads(path.read_bytes()).get("url")
        return redacted(url) if isinstance(url, str) else None
    return None


def _name_or_number(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
