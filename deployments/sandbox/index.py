"""Writes the wheel index of a story, in the layout of vLLM's nightly one, beside a PEP 503 index.

`wheels/` holds `nightly/`, `<40-hex commit>/` and `<version>/`, each with the default variant in
`vllm/` and others in `<variant>/vllm/`; the files themselves lie under their commit. `simple/`
holds everything that is not vLLM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from deployments.sandbox import catalog
from deployments.sandbox.catalog import Release
from deployments.sandbox.wheels import Built, Wheel, build, normalised

VARIANTS = ("", "cu130")


def write(folder: Path, nightly: Release, older: Iterable[Release], extra: Iterable[Wheel]) -> None:
    """Write `wheels/` and `simple/`: a nightly release, older ones, and further packages."""
    releases = [nightly, *older]
    for release in releases:
        _write_vllm(folder / "wheels", release, (release.commit, public(release.version)))
    _write_vllm(folder / "wheels", nightly, ("nightly",))
    wanted = {
        (name, version): catalog.wheel(release, name, version)
        for release in releases
        for name, version in catalog.packages(release).items()
        if name != "vllm"
    }
    _write_simple(folder / "simple", [build(one) for one in [*wanted.values(), *extra]])


def public(version: str) -> str:
    """Return a version without its local part.

    >>> public("0.16.0rc2.dev344+gea5f903f8")
    '0.16.0rc2.dev344'
    """
    return version.partition("+")[0]


def _write_vllm(base: Path, release: Release, places: tuple[str, ...]) -> None:
    builds = {variant: build(catalog.vllm(release, variant)) for variant in VARIANTS}
    files = base / release.commit
    files.mkdir(parents=True, exist_ok=True)
    for built in builds.values():
        (files / built.filename).write_bytes(built.data)
    for place in places:
        for variant, built in builds.items():
            _write_project(base / place / variant / "vllm", release, variant, built)
        others = [variant for variant in VARIANTS if variant]
        _write_links(base / place, [*(f"{one}/" for one in others), "vllm/"], release.commit)
        for variant in others:
            _write_links(base / place / variant, ["vllm/"], release.commit)


def _write_project(folder: Path, release: Release, variant: str, built: Built) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    up = "../" * (3 if variant else 2)
    path = f"{up}{release.commit}/{quote(built.filename)}"
    python, abi, platform = built.filename.removesuffix(".whl").split("-")[-3:]
    described = {
        "package_name": "vllm",
        "version": release.version,
        "build_tag": None,
        "python_tag": python,
        "abi_tag": abi,
        "platform_tag": platform,
        "variant": variant or None,
        "filename": built.filename,
        "path": path,
    }
    (folder / "metadata.json").write_text(json.dumps([described], indent=2))
    page = _page(f"commit {release.commit}", [(path, built.filename)])
    (folder / "index.html").write_text(page)


def _write_links(folder: Path, names: Iterable[str], commit: str) -> None:
    page = _page(f"Generated for tests (commit {commit})", [(name, name) for name in names])
    (folder / "index.html").write_text(page)


def _write_simple(folder: Path, wheels: list[Built]) -> None:
    projects: dict[str, list[Built]] = {}
    for built in wheels:
        projects.setdefault(normalised(built.name), []).append(built)
    for name, builds in projects.items():
        project = folder / name
        project.mkdir(parents=True, exist_ok=True)
        for built in builds:
            (project / built.filename).write_bytes(built.data)
        links = [(f"{quote(one.filename)}#sha256={one.sha256}", one.filename) for one in builds]
        (project / "index.html").write_text(_page("stand-ins for tests", links))
    page = _page("stand-ins for tests", [(f"{name}/", name) for name in sorted(projects)])
    (folder / "index.html").write_text(page)


def _page(comment: str, links: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f'    <a href="{href}">{text}</a><br/>\n' for href, text in links)
    return (
        f"<!DOCTYPE html>\n<html>\n  <!-- {comment} -->\n"
        '  <meta name="pypi:repository-version" content="1.0">\n'
        f"  <body>\n{rows}  </body>\n</html>\n"
    )
