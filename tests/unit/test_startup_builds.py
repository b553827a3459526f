"""Whether a version that runs is the build that was asked for."""

import pytest

from tasks.startup.builds import same_build


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.16.0rc2.dev344+gea5f903f8.cu130", "0.16.0rc2.dev344+gea5f903f8", True),
        ("0.16.0rc2.dev344+gea5f903f8", "0.16.0rc2.dev344+gea5f903f8aaa", True),
        ("0.16.0rc2.dev344+gea5f903f8.d20261203", "0.16.0rc2.dev344+gea5f903f8.cu130", True),
        ("0.16.0rc2.dev344+gea5f903f8", "0.16.0rc2.dev344+g662205d34", False),
        ("0.16.0rc2.dev344+gea5f903f8", "0.16.0rc2.dev345+gea5f903f8", False),
        ("0.16.0rc2.dev344+gea5f903f8", "0.16.0rc2.dev344", True),
        ("0.16.0rc2.dev344", "0.16.0rc2", False),
        ("0.16.0rc1", "0.16.0rc2", False),
        ("0.16.0rc1", "0.16.0", False),
        ("0.16.0.post1", "0.16.0", False),
        ("0.16.0+cu130", "0.16.0", True),
        ("0.16.0", "0.16", True),
        ("v0.16.0", "0.16.0", True),
        ("0.16.0", "0.16.1", False),
        ("0.16.10", "0.16.1", False),
        ("0.10.0", "0.1", False),
        ("our-build", "our-build", True),
        ("our-build", "0.16.0", False),
    ],
)
def test_a_build_is_the_same_whatever_its_variant(one: str, other: str, same: bool) -> None:
    assert same_build(one, other) is same
    assert same_build(other, one) is same
