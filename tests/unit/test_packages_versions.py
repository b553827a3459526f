"""vLLM's versions, and the commits between two of them."""

import pytest

from tasks.packages.versions import commit_delta, parse


def test_parts_of_a_nightly() -> None:
    version = parse("0.16.0rc2.dev344+gea5f903f8")

    assert (str(version.base), version.dev, version.commit) == ("0.16.0rc2", 344, "ea5f903f8")
    assert version.variant is None


@pytest.mark.parametrize(
    ("text", "base", "dev", "commit", "variant", "modified"),
    [
        ("0.16.0rc2.dev344+gea5f903f8.cu130", "0.16.0rc2", 344, "ea5f903f8", "cu130", False),
        ("0.16.0rc2.dev344+gea5f903f8.d20260102.cpu", "0.16.0rc2", 344, "ea5f903f8", "cpu", True),
        ("0.16.1.dev3+g0123abc", "0.16.1", 3, "0123abc", None, False),
        ("0.16.0", "0.16.0", None, None, None, False),
        ("0.9.0.1", "0.9.0.1", None, None, None, False),
        ("0.5.3.post1", "0.5.3.post1", None, None, None, False),
        ("0.32.0+cpu", "0.32.0", None, None, "cpu", False),
    ],
)
def test_parts(
    text: str, base: str, dev: int | None, commit: str | None, variant: str | None, modified: bool
) -> None:
    version = parse(text)

    assert (str(version.base), version.dev, version.commit) == (base, dev, commit)
    assert (version.variant, version.modified) == (variant, modified)


def test_no_version() -> None:
    with pytest.raises(ValueError, match="'nightly' is not a version"):
        parse("nightly")


def test_delta_from_one_tag() -> None:
    delta = commit_delta("0.16.0rc2.dev313+g662205d34", "0.16.0rc2.dev344+gea5f903f8")

    assert delta.count == 31
    assert (delta.from_commit, delta.to_commit) == ("662205d34", "ea5f903f8")
    assert delta.compare_url == (
        "https://github.com/vllm-project/vllm/compare/662205d34...ea5f903f8"
    )


def test_the_variant_does_not_matter() -> None:
    assert commit_delta("0.16.0rc2.dev1+gaaaaaaa", "0.16.0rc2.dev4+gbbbbbbb.cpu").count == 3


def test_a_modified_build_is_counted_and_said() -> None:
    delta = commit_delta("0.16.0rc2.dev1+gaaaaaaa.d20260101", "0.16.0rc2.dev4+gbbbbbbb")

    assert delta.count == 3
    assert "changes that are in no commit" in delta.why


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("0.16.0rc1.dev9+gaaaaaaa", "0.16.0rc2.dev4+gbbbbbbb", "count from different tags"),
        ("0.16.0", "0.16.1.dev4+gbbbbbbb", "0.16.0 is a release"),
        ("0.16.1.dev4+gbbbbbbb", "0.17.0", "0.17.0 is a release"),
        ("0.16.1.dev4", "0.16.1.dev5+gbbbbbbb", "does not say which commit"),
        ("0.16.1.dev9+gaaaaaaa", "0.16.1.dev4+gbbbbbbb", "is older, by 5 commits"),
        ("0.16.1.dev9+gaaaaaaa", "0.16.1.dev9+gbbbbbbb", "on different branches"),
        ("0.16.1.dev8+gaaaaaaa", "0.16.1.dev9+gaaaaaaa1", "the commit is the same"),
        ("unknown", "0.16.1.dev9+gbbbbbbb", "'unknown' is not a version"),
    ],
)
def test_what_cannot_be_known_is_said_to_be_unknown(old: str, new: str, why: str) -> None:
    delta = commit_delta(old, new)

    assert delta.count is None
    assert delta.why.startswith("Unknown: ")
    assert why in delta.why


def test_releases_can_be_compared_by_their_tags() -> None:
    delta = commit_delta("0.16.0", "0.16.1.dev4+gbbbbbbb")

    assert delta.compare_url == "https://github.com/vllm-project/vllm/compare/v0.16.0...bbbbbbb"


def test_the_same_version() -> None:
    assert commit_delta("0.16.0", "0.16.0").count == 0
