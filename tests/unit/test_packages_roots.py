"""What an operator asked for, told from what came along with it."""

import pytest

from tasks.packages.families import Installed, marker_environment
from tasks.packages.roots import orphans, roots

LINUX = marker_environment(python="3.12.3", machine="x86_64")
VLLM = Installed("vllm", "0.16.0", ["torch==2.9", "flashinfer-python==0.6.3"])
TORCH = Installed("torch", "2.9", ["numpy", 'triton; sys_platform == "win32"'])
BASE = [VLLM, TORCH, Installed("numpy", "2.3"), Installed("flashinfer-python", "0.6.3")]
CUBIN = Installed("flashinfer-cubin", "0.6.3")


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ([], []),
        ([CUBIN], ["flashinfer-cubin"]),
        ([Installed("pip", "25"), Installed("setuptools", "80")], []),
        (
            [Installed("lmcache", "1", ["Torch>=2", "aiofile"]), Installed("aiofile", "3")],
            ["lmcache"],
        ),
        # Asked for only on another system, so nobody asks for it here.
        ([Installed("triton", "3")], ["triton"]),
        # An extra that somebody asks for is asked for; one that nobody asks for is not.
        (
            [
                Installed("a", "1", ["b[x]"]),
                Installed("b", "1", ['c; extra == "x"', 'd; extra == "y"']),
                Installed("c", "1"),
                Installed("d", "1"),
            ],
            ["a", "d"],
        ),
        ([Installed("one", "1", ["two"]), Installed("two", "1", ["one"])], ["one"]),
        ([Installed("self", "1", ["self[all]"])], ["self"]),
        ([Installed("odd", "1", ["not a requirement !"])], ["odd"]),
    ],
)
def test_what_was_asked_for(beside: list[Installed], expected: list[str]) -> None:
    assert roots([*BASE, *beside], LINUX, "vllm") == expected


def test_without_vllm_it_is_what_nothing_requires() -> None:
    assert roots(BASE[1:], LINUX, "vllm") == ["flashinfer-python", "torch"]


def test_what_only_the_old_release_needed_is_an_orphan() -> None:
    plugin = [Installed("lmcache", "1", ["aiofile"]), Installed("aiofile", "3")]
    packages = [*BASE, CUBIN, Installed("pip", "25"), *plugin]
    locked = {"vllm", "torch", "flashinfer-python", "flashinfer-cubin"}
    assert orphans(packages, LINUX, "vllm", locked) == ["numpy"]
    assert orphans(packages, LINUX, "vllm", {*locked, "lmcache"}) == ["aiofile", "numpy"]
