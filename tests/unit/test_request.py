"""What an operator may ask for."""

import pytest
from pydantic import ValidationError

from tasks.request import Request, SkewPolicy, Strategy


def test_the_safe_wishes_are_the_default() -> None:
    request = Request(service="kimi")
    assert (request.strategy, request.skew) == (Strategy.STAGED, SkewPolicy.REPAIR)
    assert request.target == "nightly"
    assert not request.plan_only


def test_whoever_asks_without_a_name_came_by_prefect() -> None:
    assert Request(service="kimi").who == "Prefect's UI or API"
    assert Request(service="kimi", requested_by="ann").who == "ann"


@pytest.mark.parametrize(
    "target",
    [
        *("nightly", "latest", "0.16.0rc2.dev344+gea5f903f8", "ea5f903f8", "0.25.1", "a" * 40),
        f"https://h:8/x/vllm-1-py3-none-any.whl#sha256={'a' * 64}",
        "/srv/wheels/vllm-1%2Bg-py3-none-any.whl",
    ],
)
def test_targets(target: str) -> None:
    assert Request(service="kimi", target=target).target == target


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("service", "Kimi K2"),
        ("service", "../kimi"),
        ("target", "--upgrade"),
        ("target", "nightly; reboot"),
        ("target", "0.1\n0.2"),
        ("target", ""),
        ("target", "https://me:secret@h/vllm-1-py3-none-any.whl"),
        ("target", "file:///srv/vllm-1-py3-none-any.whl"),
        ("target", "/etc/passwd"),
        ("target", "/srv/a b.whl"),
        ("attempts", 0),
        ("attempts", 6),
        ("strategy", "yolo"),
        ("resume", "the last one"),
        ("reason", "two\nlines"),
        ("requested_by", "\x1b[31mred"),
        ("colour", "red"),
    ],
)
def test_nonsense_is_refused_by_its_name(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        Request.model_validate({"service": "kimi", field: value})
    assert [error["loc"][0] for error in refused.value.errors()] == [field]
