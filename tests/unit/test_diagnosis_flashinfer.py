"""The flashinfer family: which way its kernels are brought in step, by what can be resolved."""

import pytest

from tasks.diagnosis.finding import diagnose
from tasks.diagnosis.journal import read
from tasks.diagnosis.rules import Remedy
from tasks.diagnosis.rules.acts import Install
from tasks.diagnosis.symptoms import Death, Facts
from tasks.packages.families import Installed

OWN = "https://flashinfer.ai/whl"


def remedy(package: str, there: str, wanted: str, **facts: object) -> Remedy:
    text = (
        f"RuntimeError: {package} version ({there}) does not match flashinfer version ({wanted})."
    )
    installed = (
        Installed("flashinfer-python", wanted),
        Installed(package, there),
        Installed("vllm", "0.33.0"),
    )
    known = Facts.model_validate({"packages": installed, "environment": "/opt/v", **facts})
    found = diagnose(read(text), known, Death(kind="crashed")).remedy
    assert found is not None
    return found


@pytest.mark.parametrize(("there", "wanted"), [("0.6.3", "0.6.4"), ("0.6.5", "0.6.4")])
def test_cubin_moves_in_either_direction(there: str, wanted: str) -> None:
    found = remedy("flashinfer-cubin", there, wanted, resolvable=["configured", "flashinfer"])

    act = Install(packages=(f"flashinfer-cubin=={wanted}",))
    assert (found.safety, found.acts) == ("auto", (act,))


def test_then_flashinfers_own_index() -> None:
    found = remedy("flashinfer-cubin", "0.6.13", "0.6.14", resolvable=["flashinfer", "download"])

    act = Install(packages=("flashinfer-cubin==0.6.14",), indexes=(OWN,))
    assert (found.safety, found.acts) == ("auto", (act,))


def test_then_what_vllm_downloads() -> None:
    found = remedy("flashinfer-cubin", "0.6.13", "0.6.14", resolvable=["download"])

    assert (found.safety, found.commands) == (
        "auto",
        (
            ("uv", "pip", "uninstall", "--python", "/opt/v/bin/python", "flashinfer-cubin"),
            ("/opt/v/bin/vllm", "download-kernels"),
        ),
    )


def test_nothing_is_fetched_into_a_cache_that_the_service_does_not_read() -> None:
    found = remedy(
        "flashinfer-cubin", "0.6.13", "0.6.14", resolvable=["download"], runs_as_owner=False
    )

    assert (found.safety, found.acts) == ("approval", ())


@pytest.mark.parametrize(
    ("nvcc", "ninja", "safety"),
    [
        (True, True, "auto"),
        (True, False, "approval"),
        (False, True, "approval"),
        (None, None, "approval"),
    ],
)
def test_removal_only_where_kernels_can_be_built(
    nvcc: bool | None, ninja: bool | None, safety: str
) -> None:
    found = remedy(
        "flashinfer-cubin", "0.6.13", "0.6.14", resolvable=[], has_nvcc=nvcc, has_ninja=ninja
    )

    assert found.safety == safety
    assert bool(found.commands) is (safety == "auto")


def test_jit_cache_keeps_its_cuda() -> None:
    found = remedy("flashinfer-jit-cache", "0.6.3+cu130", "0.6.4", resolvable=["flashinfer"])

    index = f"{OWN}/cu130"
    assert found.acts == (
        Install(packages=("flashinfer-jit-cache==0.6.4+cu130",), indexes=(index,)),
    )


def test_flashinfer_python_never_moves() -> None:
    for package in ("flashinfer-cubin", "flashinfer-jit-cache"):
        found = remedy(package, "0.6.3", "0.6.4")
        assert "flashinfer-python" not in str(found.packages + found.commands)


def test_from_0_7_a_warning_is_no_failure() -> None:
    text = (
        "(APIServer pid=1) WARNING 12-01 12:00:00 [env.py:1] Ignoring incompatible "
        "flashinfer-cubin package\n(APIServer pid=1) INFO:     Application startup complete."
    )

    assert diagnose(read(text), Facts(), Death(kind="not-asked")).healthy
