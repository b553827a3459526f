"""Proves that an environment is what the lock says, before it is used: `verify`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blocks.supervisor import commands, environment, patience, records, uv
from blocks.supervisor.environment import Owner
from blocks.supervisor.failures import Failure
from blocks.supervisor.work import Work

AT_MOST = 200
_IMPORT_SECONDS = 300
_MODEL_SECONDS = 10


def verify(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Check files, markers, versions, imports and the model's config of an environment.

    Raises:
        Failure: Something differs; the fields are the whole result.
    """
    real = environment.require(arguments["environment"])
    folder = environment.require(arguments["look_at"] or arguments["environment"])
    work.progress(stage="files")
    compared = records.compare(folder)
    doubtful = [*compared.differing, *records.unrecorded_sources(folder, compared.recorded)]
    installed = environment.versions(folder)
    found: dict[str, Any] = {
        "files_checked": compared.checked,
        "packages": len(installed),
        **_capped("differing", compared.differing),
        **_capped("missing", compared.missing),
        **_capped("markers", find_markers(doubtful, arguments["markers"])),
        **_capped("not_as_locked", not_as_locked(arguments["locked"], installed)),
    }
    owner = environment.owner(folder)
    found["imports"] = {}
    for module in arguments["imports"]:
        work.progress(stage="imports", detail=module)
        found["imports"][module] = _import(module, real, folder, owner)
    found["config_keys"], found["config_problem"] = _config_keys(
        arguments["model"], arguments["forbidden_config_keys"]
    )
    reasons = _reasons(found)
    if reasons:
        raise Failure(
            "not-verified",
            f"{folder} is not as it has to be: {'; '.join(reasons)}.",
            "The lists name each one.",
            **found,
        )
    return found


def find_markers(paths: Iterable[str], markers: list[str]) -> list[dict[str, Any]]:
    """Return where the markers stand in Python files that no RECORD vouches for.

    A file that is as its package delivered it holds no left-over debug code, whatever it says.
    """
    found: list[dict[str, Any]] = []
    if not markers:
        return found
    for path in paths:
        if path.endswith(".py"):
            found += _markers_in(path, markers)
    return found


def not_as_locked(locked: dict[str, str], installed: dict[str, str]) -> list[dict[str, Any]]:
    """Return the packages whose installed version is not the locked one."""
    pairs = ((environment.normalised(name), version) for name, version in locked.items())
    return [
        {"name": name, "locked": version, "installed": installed.get(name)}
        for name, version in sorted(pairs)
        if installed.get(name) != version
    ]


def keys_in(value: Any, forbidden: Iterable[str], at: str = "") -> list[str]:
    """Return the dotted places of forbidden keys in a JSON value."""
    if isinstance(value, list):
        inside = [(f"{at}[{index}]", item) for index, item in enumerate(value)]
        return [place for name, item in inside for place in keys_in(item, forbidden, name)]
    if not isinstance(value, dict):
        return []
    places = []
    for key, item in value.items():
        place = f"{at}.{key}" if at else str(key)
        places += ([place] if key in forbidden else []) + keys_in(item, forbidden, place)
    return places


def _markers_in(path: str, markers: list[str]) -> list[dict[str, Any]]:
    try:
        text = Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    if not any(marker in text for marker in markers):
        return []
    return [
        {"file": path, "line": number, "marker": marker}
        for number, line in enumerate(text.splitlines(), 1)
        for marker in markers
        if marker in line
    ]


def _import(module: str, real: Path, folder: Path, owner: Owner) -> str | None:
    command = uv.as_owner(owner, commands.import_module(os.fspath(real / "bin" / "python"), module))
    if folder != real:
        command = commands.bound(os.fspath(folder), os.fspath(real), command)
    ended = uv.stream_as_owner(owner, command, timeout=_IMPORT_SECONDS, keep_lines=40)
    return None if ended.exit == 0 else uv.words_of(ended, 2000)


def _config_keys(model: str | None, forbidden: list[str]) -> tuple[list[str], str | None]:
    if model is None or not forbidden:
        return [], None
    looked = patience.read_json(f"{model}/config.json", _MODEL_SECONDS)
    if looked.problem:
        return [], looked.problem
    return keys_in(looked.value, forbidden)[:AT_MOST], None


def _capped(name: str, items: list[Any]) -> dict[str, Any]:
    return {name: items[:AT_MOST], f"{name}_count": len(items)}


def _reasons(found: dict[str, Any]) -> list[str]:
    failed = [name for name, error in found["imports"].items() if error]
    said = (
        (found["differing_count"], "{} files differ from their RECORD"),
        (found["missing_count"], "{} recorded files are missing"),
        (found["markers_count"], "{} debug markers were found"),
        (found["not_as_locked_count"], "{} packages are not as locked"),
        (", ".join(failed), "import fails: {}"),
        (", ".join(found["config_keys"]), "the model's config.json has {}"),
        (found["config_problem"], "the model's config.json could not be looked at: {}"),
    )
    return [sentence.format(value) for value, sentence in said if value]
