"""The wheel index: which wheel a target means.

An index has a folder for each commit, one for each version and one named `nightly`; in each of
them, and in a folder for each variant below it, lies `<distribution>/metadata.json`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit

import httpx
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict

from tasks.packages import pages, versions
from tasks.packages.pages import Entry, NoWheel, Why

NIGHTLY = "nightly"
LATEST = "latest"
_MOST_SHOWN = 5
_WHOLE_COMMIT = 40
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_FULL_COMMIT = re.compile(r"/([0-9a-f]{40})/")


class Wheel(BaseModel):
    """One wheel, found.

    Attributes:
        name: the distribution.
        version: what will be installed, with the variant where the wheel's name has it.
        commit: the commit it was built from, all 40 digits where the index says them.
        variant: the build, as asked for or as the index names it.
        filename: the wheel's name.
        url: where it is; escaped as the index has it.
        tags: what it runs on.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    version: str
    commit: str | None
    variant: str | None
    filename: str
    url: str
    tags: tuple[str, ...]


def wheel_urls(
    base: str, target: str, variant: str | None, distribution: str = "vllm"
) -> tuple[str, ...]:
    """Say where the index would describe a target: the pages to try, best first.

    A version that names its commit may lie under either, or be the nightly of today; so may the
    beginning of a commit.
    """
    folders = [target.removeprefix("v") if is_version(target) else target]
    if is_version(target):
        commit = versions.parse(target).commit
        folders += [commit, NIGHTLY] if commit else []
    elif target != NIGHTLY and len(target) < _WHOLE_COMMIT:
        folders.append(NIGHTLY)  # no folder bears a part of a commit's name
    below = f"{quote(variant, safe='')}/" if variant else ""
    name = quote(distribution, safe="")
    return tuple(
        f"{base.rstrip('/')}/{quote(folder, safe='')}/{below}{name}/metadata.json"
        for folder in folders
    )


def choose(
    entries: Sequence[Entry],
    *,
    page_url: str,
    target: str,
    machine: str,
    python: str,
    variant: str | None,
) -> Wheel:
    """Choose the wheel that a target means.

    Args:
        entries: what the page lists.
        page_url: where it was read; paths are relative to it.
        target: `nightly`, an exact version or a commit.
        machine: as `platform.machine()` says, `x86_64`.
        python: the environment's version, `3.12` or longer.
        variant: the build; None for the default one.

    Returns:
        The newest wheel that fits.

    Raises:
        NoWheel: none fits; `offered` says what there is.
    """
    offered = [(_wheel(one, page_url, variant), one) for one in entries if _has(one, variant)]
    if not offered:
        raise _none("variant", f"no build {variant or '(default)'}", page_url, entries)
    asked = [(wheel, one) for wheel, one in offered if _is_target(wheel, target)]
    if not asked:
        raise _none("target", f"no {target}", page_url, entries)
    able = [(wheel, one) for wheel, one in asked if _runs_on(wheel, machine, python)]
    if not able:
        raise _none("platform", f"no wheel for {machine}, Python {python}", page_url, entries)
    found = [wheel for wheel, one in able if one.yanked is None]
    if not found:
        raise _withdrawn(able[0][1], page_url)
    return max(found, key=lambda wheel: (Version(wheel.version), wheel.filename))


def find_wheel(
    client: httpx.Client,
    base: str,
    target: str,
    *,
    machine: str,
    python: str,
    distribution: str,
    variant: str | None,
) -> Wheel:
    """Ask the index for the wheel that a target means; see `choose`.

    Raises:
        NoWheel: the index cannot be read, is none, or has no such wheel.
    """

    def chosen_at(url: str) -> Wheel:
        entries, page_url = pages.read(client, url, distribution)
        return choose(
            [entry for entry in entries if _same_name(entry.package_name, distribution)],
            page_url=page_url,
            target=target,
            machine=machine,
            python=python,
            variant=variant,
        )

    *others, last = wheel_urls(base, target, variant, distribution)
    for url in others:
        try:
            return chosen_at(url)
        except NoWheel as error:
            if error.why not in ("not-there", "target"):
                raise
    return chosen_at(last)


def wheel_at(place: str, distribution: str, *, machine: str, python: str) -> Wheel:
    """Return the wheel that a URL, or a path on the host, names.

    Args:
        place: where it is; a `#sha256=` at its end is kept, for uv to check.
        distribution: whose wheel it has to be.
        machine: as `platform.machine()` says.
        python: the environment's version.

    Raises:
        NoWheel: its name is none of a wheel, or of another distribution or platform.
    """
    url = Path(place).as_uri() if place.startswith("/") else place
    wheel = _named(url, url)
    if not _same_name(wheel.name, distribution):
        raise NoWheel("target", f"{wheel.filename} is a wheel of {wheel.name}.", url=url)
    if not _runs_on(wheel, machine, python):
        message = f"{wheel.filename} does not run on {machine}, Python {python}."
        raise NoWheel("platform", message, url=url)
    return wheel.model_copy(update={"variant": versions.variant_of(wheel.version)})


def _same_name(one: str, other: str) -> bool:
    return canonicalize_name(one) == canonicalize_name(other)


def is_version(target: str) -> bool:
    """Tell a version from a commit and from the words."""
    if target in (NIGHTLY, LATEST) or (_COMMIT.fullmatch(target) and "." not in target):
        return False
    try:
        Version(target)
    except InvalidVersion:
        return False
    return True


def _has(entry: Entry, variant: str | None) -> bool:
    # The default build is listed once more, without a variant, in the folder of its own variant.
    return entry.variant is None or entry.variant == variant


def _wheel(entry: Entry, page_url: str, variant: str | None) -> Wheel:
    url = urljoin(page_url, entry.path)
    wheel = _named(url, page_url)
    if urlsplit(url).scheme not in ("http", "https"):
        raise NoWheel("not-an-index", f"{page_url} points to {url!r}.", url=page_url)
    return wheel.model_copy(update={"variant": variant or entry.variant})


def _named(url: str, named_by: str) -> Wheel:
    """Return what the address of a wheel says of it."""
    filename = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise NoWheel(
            "not-an-index", f"{named_by} names {filename!r}: {error}", url=named_by
        ) from error
    full = _FULL_COMMIT.search(url)
    short = versions.parse(str(version)).commit
    if full and short and not full[1].startswith(short):
        message = f"{named_by} contradicts itself: {filename} lies in the folder of {full[1]}."
        raise NoWheel("not-an-index", message, url=named_by)
    return Wheel(
        name=str(name),
        version=str(version),
        commit=full[1] if full else short,
        variant=None,
        filename=filename,
        url=url,
        tags=tuple(sorted(map(str, tags))),
    )


def _is_target(wheel: Wheel, target: str) -> bool:
    if target == NIGHTLY:
        return True
    if not is_version(target):
        return (wheel.commit or "").startswith(target)
    asked, built = versions.parse(target), versions.parse(wheel.version)
    same = (asked.base, asked.dev, asked.commit) == (built.base, built.dev, built.commit)
    return same and asked.variant in (None, built.variant)


def _runs_on(wheel: Wheel, machine: str, python: str) -> bool:
    major, minor = (int(part) for part in python.split(".")[:2])
    tags = [Tag(*tag.split("-")) for tag in wheel.tags]
    platforms = [
        tag.platform
        for tag in tags
        if tag.platform == "any" or tag.platform.endswith(f"_{machine}")
    ]
    able = {
        *cpython_tags((major, minor), [f"cp{major}{minor}"], platforms),
        *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
    }
    return any(tag in able for tag in tags)


def _withdrawn(entry: Entry, page_url: str) -> NoWheel:
    return NoWheel(
        "yanked",
        f"{entry.filename} was withdrawn: {entry.yanked}.",
        url=page_url,
        hint="Ask for another version; or, if you want this very file, for its URL.",
        offered=[entry.filename],
    )


def _none(why: Why, what: str, page_url: str, entries: Sequence[Entry]) -> NoWheel:
    offered = [entry.filename for entry in entries]
    shown = ", ".join(offered[:_MOST_SHOWN]) or "no wheel at all"
    more = f" and {len(offered) - _MOST_SHOWN} more" if len(offered) > _MOST_SHOWN else ""
    return NoWheel(
        why,
        f"{page_url} has {what}; it has {shown}{more}.",
        url=page_url,
        hint="Ask for another version, commit or variant, or wait until it is published.",
        offered=offered,
    )
