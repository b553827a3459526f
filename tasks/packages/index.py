"""The wheel index: which wheel a target means.

An index has a folder for each commit, one for each version and one named `nightly`; in each of
them, and in a folder for each variant below it, lies `<distribution>/metadata.json`.
"""

import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote, unquote, urljoin, urlsplit

import httpx
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from blocks.errors import RedeployError
from tasks.packages import versions

NIGHTLY = "nightly"
_MOST_SHOWN = 5
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_FULL_COMMIT = re.compile(r"/([0-9a-f]{40})/")

Why = Literal[
    "unreachable", "refused", "not-there", "not-an-index", "variant", "platform", "target"
]


class Entry(BaseModel):
    """One wheel as metadata.json lists it; `version` comes without the variant."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    package_name: str
    version: str
    variant: str | None = None
    filename: str
    path: str


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


class NoWheel(RedeployError):
    """The index has no wheel for what was asked for; nothing was changed.

    Attributes:
        why: one word, for programs.
        url: the page that was read.
        offered: what it has instead.
    """

    def __init__(
        self, why: Why, message: str, *, url: str, hint: str = "", offered: Sequence[str] = ()
    ) -> None:
        super().__init__(message, hint, "Nothing was changed.")
        self.why: Why = why
        self.url = url
        self.offered = tuple(offered)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.why, self.message, self.url, self.hint, self.offered)


def wheel_urls(
    base: str, target: str, variant: str | None, distribution: str = "vllm"
) -> tuple[str, ...]:
    """Say where the index would describe a target: the pages to try, best first.

    A version that names its commit may lie under either, or be the nightly of today.
    """
    folders = [target.removeprefix("v") if _is_version(target) else target]
    if _is_version(target):
        commit = versions.parse(target).commit
        folders += [commit, NIGHTLY] if commit else []
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
    found = [_wheel(entry, page_url, variant) for entry in entries if _has(entry, variant)]
    if not found:
        raise _none("variant", f"no build {variant or '(default)'}", page_url, entries)
    found = [wheel for wheel in found if _is_target(wheel, target)]
    if not found:
        raise _none("target", f"no {target}", page_url, entries)
    found = [wheel for wheel in found if _runs_on(wheel, machine, python)]
    if not found:
        raise _none("platform", f"no wheel for {machine}, Python {python}", page_url, entries)
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
        entries, page_url = _read(client, url)
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


def parse_page(text: str, url: str) -> list[Entry]:
    """Read metadata.json, or say that it is none: a login page answers 200 as well."""
    try:
        return TypeAdapter(list[Entry]).validate_json(text)
    except ValidationError as error:
        raise NoWheel(
            "not-an-index",
            f"{url} is not a list of wheels: it begins {text.strip()[:60]!r}.",
            url=url,
            hint="Open it in a browser: a login page or a proxy may stand in front of the index.",
        ) from error


def _read(client: httpx.Client, url: str) -> tuple[list[Entry], str]:
    try:
        answer = client.get(url, follow_redirects=True)
    except httpx.HTTPError as error:
        raise NoWheel(
            "unreachable", f"{url} cannot be read: {error or type(error).__name__}.", url=url
        ) from error
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise NoWheel(
            "not-there",
            f"The index has nothing at {url}.",
            url=url,
            hint="Builds appear an hour or two after their commit, and not for every variant.",
        )
    if answer.is_error:
        reason = f"{answer.status_code} {answer.reason_phrase}".strip()
        why: Why = "unreachable" if answer.is_server_error else "refused"
        raise NoWheel(why, f"{url} answers {reason}.", url=url)
    return parse_page(answer.text, str(answer.url)), str(answer.url)


def _same_name(one: str, other: str) -> bool:
    return canonicalize_name(one) == canonicalize_name(other)


def _is_version(target: str) -> bool:
    if target == NIGHTLY or (_COMMIT.fullmatch(target) and "." not in target):
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
    filename = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise NoWheel(
            "not-an-index", f"{page_url} lists {filename!r}: {error}", url=page_url
        ) from error
    if urlsplit(url).scheme not in ("http", "https"):
        raise NoWheel("not-an-index", f"{page_url} points to {url!r}.", url=page_url)
    full = _FULL_COMMIT.search(url)
    short = versions.parse(str(version)).commit
    if full and short and not full[1].startswith(short):
        message = f"{page_url} contradicts itself: {filename} lies in the folder of {full[1]}."
        raise NoWheel("not-an-index", message, url=page_url)
    return Wheel(
        name=str(name),
        version=str(version),
        commit=full[1] if full else short,
        variant=variant or entry.variant,
        filename=filename,
        url=url,
        tags=tuple(sorted(map(str, tags))),
    )


def _is_target(wheel: Wheel, target: str) -> bool:
    if target == NIGHTLY:
        return True
    if not _is_version(target):
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


def _rebuild(why: Why, message: str, url: str, hint: str, offered: tuple[str, ...]) -> NoWheel:
    return NoWheel(why, message, url=url, hint=hint, offered=offered)
