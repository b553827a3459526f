"""vLLM's version scheme, and how many commits lie between two versions."""

import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from tasks.startup.builds import same_commit

REPOSITORY = "https://github.com/vllm-project/vllm"
_LOCAL = re.compile(
    r"g(?P<commit>[0-9a-f]{7,40})(?:\.d(?P<dirty>\d{8}))?(?:\.(?P<variant>[a-z]+\d*))?"
)


@dataclass(frozen=True)
class VllmVersion:
    """One version of vLLM, taken apart.

    Attributes:
        text: as it was written.
        base: the version it was heading for, `0.16.0rc2`.
        dev: how many commits it is after the tag before `base`; None for a release.
        commit: the commit it was built from, as far as the version says.
        modified: built from a tree with changes that are in no commit.
        variant: `cpu`, `cu130`, … or None for the default build.
    """

    text: str
    base: Version
    dev: int | None
    commit: str | None
    modified: bool
    variant: str | None


@dataclass(frozen=True)
class CommitDelta:
    """How many commits lie between two versions; `count` is None where nobody can know."""

    count: int | None
    why: str
    from_commit: str | None
    to_commit: str | None
    compare_url: str | None


def parse(text: str) -> VllmVersion:
    """Take a version apart.

    Given `0.16.0rc2.dev344+gea5f903f8`, return base 0.16.0rc2, dev 344, commit ea5f903f8.
    Raise ValueError for what is no version.
    """
    try:
        version = Version(text)
    except InvalidVersion as error:
        raise ValueError(f"{text!r} is not a version.") from error
    local = version.local or ""
    built_from = _LOCAL.fullmatch(local)
    return VllmVersion(
        text=text,
        base=Version(_base(version)),
        dev=version.dev,
        commit=built_from["commit"] if built_from else None,
        modified=bool(built_from and built_from["dirty"]),
        variant=(built_from["variant"] if built_from else local) or None,
    )


def variant_of(text: str) -> str | None:
    """Return the variant that a version names, or None: the default build, or no version."""
    try:
        return parse(text).variant
    except ValueError:
        return None


def commit_delta(old: str, new: str) -> CommitDelta:
    """Count the commits from one version to another.

    The version says only how many commits it is after a tag. So the count is known where both
    count from the same tag; everything else is said to be unknown, with the reason.
    """
    try:
        before, after = parse(old), parse(new)
    except ValueError as error:
        return CommitDelta(None, f"Unknown: {error}", None, None, None)
    count, why = _count(before, after)
    return CommitDelta(count, why, before.commit, after.commit, _compare_url(before, after))


def _base(version: Version) -> str:
    pre = "".join(map(str, version.pre)) if version.pre else ""
    post = f".post{version.post}" if version.post is not None else ""
    return ".".join(map(str, version.release)) + pre + post


def _count(before: VllmVersion, after: VllmVersion) -> tuple[int | None, str]:
    if before.text == after.text:
        return 0, "Both are the same version."
    for version in (before, after):
        if version.dev is None:
            return None, f"Unknown: {version.text} is a release and does not say its commit count."
        if version.commit is None:
            return None, f"Unknown: {version.text} does not say which commit it was built from."
    if before.base != after.base:
        return None, f"Unknown: {before.base} and {after.base} count from different tags."
    return _count_from_one_tag(before, after, (after.dev or 0) - (before.dev or 0))


def _count_from_one_tag(
    before: VllmVersion, after: VllmVersion, count: int
) -> tuple[int | None, str]:
    if count < 0:
        return None, f"Unknown: {after.text} is older, by {-count} commits if both are on one line."
    same = same_commit(before.commit or "", after.commit or "")
    if count == 0 and not same:
        return None, "Unknown: both are as far from the tag, but on different branches."
    if count > 0 and same:
        return None, "Unknown: the counts differ, but the commit is the same."
    why = f"Both count from the tag before {after.base}, where history is taken to be one line."
    if before.modified or after.modified:
        why += " A build also holds changes that are in no commit."
    return count, why


def _compare_url(before: VllmVersion, after: VllmVersion) -> str | None:
    names = [_revision(before), _revision(after)]
    return f"{REPOSITORY}/compare/{names[0]}...{names[1]}" if all(names) else None


def _revision(version: VllmVersion) -> str | None:
    if version.commit:
        return version.commit
    return f"v{version.base}" if version.dev is None else None
