"""Packages that must move together."""

import json
import re
from pathlib import Path

import pytest

from tasks.packages.families import Installed, Skew, cure, marker_environment, skews

CASES = Path(__file__).parent.parent / "cases"
LINUX = marker_environment(python="3.12.3", machine="x86_64")


def found(*packages: Installed) -> list[tuple[str, str]]:
    return [(skew.kind, skew.package) for skew in skews(packages, LINUX)]


def test_the_skew_this_was_built_for() -> None:
    (skew,) = skews(
        [Installed("flashinfer-python", "0.6.4"), Installed("flashinfer_cubin", "0.6.3")], LINUX
    )

    assert skew == Skew(
        "flashinfer", "flashinfer-cubin", "0.6.3", "flashinfer-python", "==0.6.4", fatal=True
    )
    assert cure(skew) == "flashinfer-cubin==0.6.4"
    assert skew.sentence == (
        "flashinfer-python asks for flashinfer-cubin==0.6.4, but 0.6.3 is installed: "
        "the service will not start."
    )


@pytest.mark.parametrize(
    ("python", "cubin", "fatal"),
    [
        ("0.6.4", "0.6.4", None),
        ("0.6.4+cu130", "0.6.4", None),
        ("0.6.16.post3", "0.6.16.post3", None),
        ("0.6.16.post3", "0.6.16", True),
        ("0.6.3", "0.6.4", True),
        ("0.6.18", "0.6.13", True),
        ("0.7.0", "0.6.13", False),
        ("0.7.1", "0.7.1", None),
    ],
)
def test_cubin_must_equal_python(python: str, cubin: str, fatal: bool | None) -> None:
    skew = skews(
        [Installed("flashinfer-python", python), Installed("flashinfer-cubin", cubin)], LINUX
    )

    assert [one.fatal for one in skew] == ([] if fatal is None else [fatal])


@pytest.mark.parametrize(
    ("python", "cache", "fits"),
    [
        ("0.6.4", "0.6.4+cu130", True),
        ("0.6.4", "0.6.4.post1+cu130", True),
        ("0.6.1", "0.6.10+cu130", False),
        ("0.6.4", "0.6.3+cu130", False),
    ],
)
def test_jit_cache_must_begin_with_python(python: str, cache: str, fits: bool) -> None:
    skew = skews(
        [Installed("flashinfer-python", python), Installed("flashinfer-jit-cache", cache)], LINUX
    )

    assert (skew == []) is fits


def test_cubin_alone_says_nothing() -> None:
    assert found(Installed("flashinfer-cubin", "0.6.3")) == []


def test_requirements_of_everything_against_everything() -> None:
    vllm = Installed("vllm", "0.33.0", ["torch==2.11.0", "numpy<2.3", "absent>=1", "here"])

    assert found(
        vllm,
        Installed("torch", "2.11.0+cu130"),
        Installed("numpy", "2.3.1"),
        Installed("here", "1.0rc1"),
    ) == [("missing", "absent"), ("requirement", "numpy")]


def test_markers_are_evaluated_for_the_host() -> None:
    package = Installed(
        "a",
        "1",
        ['b>1; sys_platform == "win32"', 'c>1; python_version < "3.12"', 'd>1; extra == "x"'],
    )

    assert found(package) == []


def test_an_extra_counts_where_somebody_asks_for_it() -> None:
    fastapi = Installed("fastapi", "0.133.0", ['uvicorn>=0.12; extra == "standard"'])

    assert found(fastapi) == []
    assert found(fastapi, Installed("vllm", "1", ["fastapi[standard]"])) == [("missing", "uvicorn")]


def test_an_extra_that_asks_for_an_extra_of_its_own() -> None:
    package = Installed("a", "1", ['a[two]; extra == "one"', 'gone; extra == "two"'])

    assert found(package, Installed("b", "1", ["a[one]"])) == [("missing", "gone")]


def test_a_requirement_that_cannot_be_read_is_said() -> None:
    (skew,) = skews([Installed("a", "1", ["b (>=what)"])], LINUX)

    assert skew.kind == "unreadable"
    assert not skew.fatal
    assert cure(skew) is None


@pytest.mark.parametrize(
    ("skew", "expected"),
    [
        (Skew("requirement", "xgrammar", "0.1", "vllm", "==0.2.8"), "xgrammar==0.2.8"),
        (Skew("missing", "lark", None, "vllm", "==1.2.2"), "lark==1.2.2"),
        (Skew("requirement", "numpy", "2.3", "vllm", "<2.3"), None),
        (Skew("requirement", "flashinfer-python", "0.6.3", "vllm", "==0.6.4"), None),
        (Skew("requirement", "torch", "2.10", "vllm", "==2.11.0"), None),
        (Skew("requirement", "a", "1", "b", "==2.*"), None),
    ],
)
def test_cure(skew: Skew, expected: str | None) -> None:
    assert cure(skew) == expected


def locked(version: str, *, cubin: str | None = None) -> list[Installed]:
    lock = (CASES / "locks" / f"vllm-{version}.txt").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, flags=re.MULTILINE))
    requires = json.loads((CASES / "requires-dist" / f"vllm-{version}.json").read_text())
    if cubin:
        pins["flashinfer-cubin"] = cubin
    return [
        Installed(name, pin, requires["requires_dist"] if name == "vllm" else [])
        for name, pin in pins.items()
    ]


@pytest.mark.parametrize("version", ["0.25.1", "0.26.0", "0.33.0"])
def test_a_real_lock_fits_together(version: str) -> None:
    packages = locked(version)

    assert skews(packages, LINUX) == []


@pytest.mark.parametrize(("version", "fatal"), [("0.26.0", True), ("0.33.0", False)])
def test_a_real_lock_over_a_left_over_cubin(version: str, fatal: bool) -> None:
    (skew,) = skews(locked(version, cubin="0.6.13"), LINUX)

    assert skew.package == "flashinfer-cubin"
    assert skew.fatal is fatal
