"""The stand-in packages of a release: names and versions of a real vLLM, contents of our own.

`data/lock.txt` is what vLLM 0.16.0 really resolves to, with who asked for each package;
`data/requires.txt` is what its metadata really asks for. Only the names, the versions and the
requirements are real: every package is a stand-in for tests.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deployments.sandbox.wheels import Wheel, escaped, normalised

HERE = Path(__file__).parent
EXTRAS = {"fastapi": ("standard",), "mistral-common": ("image",), "ray": ("cgraph",)}


@dataclass(frozen=True)
class Release:
    """One vLLM build: its version, its commit and which packages go with it.

    `left_out` are packages of the real lock that this release does without; `versions` are the
    ones that differ from it; `asks` are requirements of vLLM's beside the real ones.
    """

    version: str
    commit: str
    flashinfer: str
    asks: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def lock() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return version and askers of every package of the real lock but vLLM itself."""
    rows = re.findall(
        r"^(\S+)==(\S+)(?: +# via (.*))?$", (HERE / "data/lock.txt").read_text(), re.MULTILINE
    )
    return {
        name: (version, tuple(via.split(", ")) if via else ())
        for name, version, via in rows
        if name != "vllm"
    }


def packages(release: Release) -> dict[str, str]:
    """Return what an installation of the release consists of, vLLM included."""
    chosen = {
        name: release.versions.get(name, version)
        for name, (version, _) in lock().items()
        if name not in release.left_out
    }
    return chosen | {"vllm": release.version, "flashinfer-python": release.flashinfer}


def wheel(release: Release, name: str, version: str) -> Wheel:
    """Return the stand-in of one package of a release."""
    if name == "vllm":
        return vllm(release)
    if name == "flashinfer-python":
        return flashinfer(version, _required_by(name, release))
    return filler(name, version, _required_by(name, release))


def vllm(release: Release, variant: str = "") -> Wheel:
    """Return the stand-in of vLLM itself, with the program and its recordings."""
    version = release.version + (f".{variant}" if variant else "")
    files = _sources("vllm") | {
        f"vllm/standin/recordings/{path.name}": path.read_bytes()
        for path in sorted((HERE / "recordings").glob("*.log"))
    }
    files["vllm/_version.py"] = _version_module(release.version)
    real = (HERE / "data/requires.txt").read_text().split("\n")
    wanted = [line for line in real if line and normalised(_name(line)) not in release.left_out]
    return Wheel(
        "vllm",
        version,
        "Stand-in for tests; not the real vllm",
        files,
        requires=(*wanted, f"flashinfer-python=={release.flashinfer}", *release.asks),
        scripts={"vllm": "vllm.entrypoints.cli.main:main"},
        tag=f"cp38-abi3-manylinux_2_{35 if variant else 31}_{platform.machine()}",
    )


def flashinfer(version: str, requires: tuple[str, ...] = ()) -> Wheel:
    """Return the stand-in of flashinfer-python, with the real one's version check."""
    files = _sources("flashinfer") | {"flashinfer/_build_meta.py": _version_module(version)}
    summary = "Stand-in for tests; not the real flashinfer-python"
    return Wheel("flashinfer-python", version, summary, files, requires)


def flashinfer_cubin(version: str) -> Wheel:
    """Return the stand-in of flashinfer-cubin: a version and some bytes."""
    files = {"flashinfer_cubin/__init__.py": _version_module(version)} | {
        f"flashinfer_cubin/cubins/{kernel}.cubin": _noise(f"{kernel} {version}", 20_000)
        for kernel in ("decode", "prefill", "gemm")
    }
    summary = "Stand-in for tests; not the real flashinfer-cubin"
    return Wheel("flashinfer-cubin", version, summary, files)


def filler(name: str, version: str, requires: Iterable[str] = ()) -> Wheel:
    """Return a package that has nothing but its name, its version and its requirements."""
    module = escaped(name)
    files = {
        f"{module}/__init__.py": _version_module(version),
        f"{module}/data.bin": _noise(f"{name} {version}", 1_000),
    }
    summary = f"Stand-in for tests; not the real {name}"
    return Wheel(name, version, summary, files, tuple(requires), EXTRAS.get(name, ()))


def _required_by(name: str, release: Release) -> tuple[str, ...]:
    return tuple(
        other
        for other, (_, askers) in lock().items()
        if name in askers and other not in release.left_out
    )


def _sources(package: str) -> dict[str, bytes]:
    folder = HERE / "packages"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / package).rglob("*.py"))
    }


def _version_module(version: str) -> bytes:
    return f'"""Stand-in for tests."""\n\n__version__ = "{version}"\n'.encode()


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _noise(seed: str, size: int) -> bytes:
    """Return bytes that look random and are always the same."""
    return hashlib.shake_256(seed.encode()).digest(size)
