"""What the wheel index has on a page: as metadata.json lists it, else as its PEP 503 page does."""

from collections.abc import Sequence
from typing import Literal
from urllib.parse import urljoin

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pypi_simple import ProjectPage

from blocks.errors import RedeployError
from tasks.packages import versions

METADATA = "metadata.json"

Why = Literal[
    "unreachable",
    "refused",
    "not-there",
    "not-an-index",
    "variant",
    "platform",
    "target",
    "yanked",
]


class Entry(BaseModel):
    """One wheel as metadata.json lists it; `version` comes without the variant.

    A PEP 503 page says less: there `version` and `variant` are what the file's name says, and
    `yanked` why it was withdrawn, if it was.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    package_name: str
    version: str
    variant: str | None = None
    filename: str
    path: str
    yanked: str | None = None


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


def read(client: httpx.Client, url: str, distribution: str) -> tuple[list[Entry], str]:
    """Return what the index lists, and the address of the page that it was read from.

    Args:
        client: what reads.
        url: where metadata.json would be; a mirror may have the PEP 503 page beside it alone.
        distribution: whose page it is.

    Raises:
        NoWheel: there is neither, or it is none.
    """
    try:
        return _read(client, url, distribution)
    except NoWheel as error:
        if error.why != "not-there":
            raise
        try:
            return _read(client, url.removesuffix(METADATA), distribution)
        except NoWheel as other:
            raise (error if other.why == "not-there" else other) from None


def _read(client: httpx.Client, url: str, distribution: str) -> tuple[list[Entry], str]:
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
    page = str(answer.url)
    if url.endswith(METADATA):
        return parse_page(answer.text, page), page
    return parse_simple_page(answer.text, page, distribution), page


def parse_page(text: str, url: str) -> list[Entry]:
    """Read metadata.json, or say that it is none: a login page answers 200 as well."""
    try:
        return TypeAdapter(list[Entry]).validate_json(text)
    except ValidationError as error:
        raise _no_index(text, url) from error


def parse_simple_page(text: str, url: str, distribution: str) -> list[Entry]:
    """Read a project's PEP 503 page, or say that it is none."""
    listed = ProjectPage.from_html(distribution, text, base_url=url).packages
    found = [
        Entry(
            package_name=one.project,
            version=one.version,
            variant=versions.variant_of(one.version),
            filename=one.filename,
            path=urljoin(url, one.url),
            yanked=(one.yanked_reason or "no reason given") if one.is_yanked else None,
        )
        for one in listed
        if one.project and one.version and one.package_type == "wheel"
    ]
    if not found:
        raise _no_index(text, url)
    return found


def _no_index(text: str, url: str) -> NoWheel:
    return NoWheel(
        "not-an-index",
        f"{url} is not a list of wheels: it begins {text.strip()[:60]!r}.",
        url=url,
        hint="Open it in a browser: a login page or a proxy may stand in front of the index.",
    )


def _rebuild(why: Why, message: str, url: str, hint: str, offered: tuple[str, ...]) -> NoWheel:
    return NoWheel(why, message, url=url, hint=hint, offered=offered)
