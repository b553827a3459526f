"""Packages that must move together, judged from what is installed or locked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Kind = Literal["requirement", "missing", "flashinfer", "unreadable"]

FLASHINFER = "flashinfer-python"
CUBIN = "flashinfer-cubin"
JIT_CACHE = "flashinfer-jit-cache"
FLASHINFER_INDEX = "https://flashinfer.ai/whl"
_ONLY_WARNS_FROM = Version("0.7.0")
# vLLM's own build decides these; a lone move of one of them breaks what was compiled against it.
_NEVER_MOVED = frozenset({FLASHINFER, "vllm", "torch", "torchvision", "torchaudio"})


@dataclass(frozen=True)
class Installed:
    """One distribution, as its METADATA has it."""

    name: str
    version: str
    requires: Sequence[str] = ()


@dataclass(frozen=True)
class Skew:
    """Two packages that do not go together.

    Attributes:
        kind: `requirement` a version outside what another asks for, `missing` one that is not
            there, `flashinfer` its own rule, `unreadable` a requirement nobody can read.
        package: the one that is wrong.
        installed: its version; None when it is missing.
        required_by: who asks.
        required: what it asks for, `==0.6.4`.
        fatal: known to stop the service from starting.
    """

    kind: Kind
    package: str
    installed: str | None
    required_by: str
    required: str
    fatal: bool = False

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        if self.kind == "unreadable":
            return f"{self.required_by} asks for {self.required!r}, which cannot be read."
        asks = f"{self.required_by} asks for {self.package}{self.required}"
        if self.installed is None:
            return f"{asks}, which is not installed."
        end = "the service will not start." if self.fatal else "it may not work."
        return f"{asks}, but {self.installed} is installed: {end}"


@dataclass
class _Requirements:
    """What everybody asks for, with the extras that somebody asked for."""

    packages: Mapping[str, Installed]
    environment: Mapping[str, str]
    unreadable: list[Skew] = field(default_factory=list)

    def all(self) -> Iterator[tuple[Installed, Requirement]]:
        """Yield who asks for what, as far as the markers apply here."""
        parsed = {name: self._parsed(package) for name, package in self.packages.items()}
        extras = self._extras(parsed)
        for name, requirements in parsed.items():
            for requirement in requirements:
                if self._applies(requirement, extras[name]):
                    yield self.packages[name], requirement

    def _parsed(self, package: Installed) -> list[Requirement]:
        found = []
        for text in package.requires:
            try:
                found.append(Requirement(text))
            except InvalidRequirement:
                self.unreadable.append(Skew("unreadable", "", None, package.name, text))
        return found

    def _extras(self, parsed: Mapping[str, list[Requirement]]) -> dict[str, set[str]]:
        extras: dict[str, set[str]] = {name: {""} for name in parsed}
        waiting = list(parsed)
        while waiting:
            name = waiting.pop()
            for requirement in parsed[name]:
                asked = str(canonicalize_name(requirement.name))
                if asked not in extras or not self._applies(requirement, extras[name]):
                    continue
                if not requirement.extras <= extras[asked]:
                    extras[asked] |= requirement.extras
                    waiting.append(asked)
        return extras

    def _applies(self, requirement: Requirement, extras: set[str]) -> bool:
        if requirement.marker is None:
            return True
        return any(
            requirement.marker.evaluate({**self.environment, "extra": extra}) for extra in extras
        )


def marker_environment(*, python: str, machine: str) -> dict[str, str]:
    """Give the marker values of a Linux host.

    Args:
        python: the environment's version, `3.12.3` or shorter.
        machine: as `platform.machine()` says.
    """
    return {
        **cast("dict[str, str]", default_environment()),
        "implementation_name": "cpython",
        "implementation_version": python,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
        "sys_platform": "linux",
    }


def skews(packages: Sequence[Installed], environment: Mapping[str, str]) -> list[Skew]:
    """Compare what every package asks for with what is there.

    Args:
        packages: everything installed, or everything that will be.
        environment: marker values, see `marker_environment`.

    Returns:
        Fatal ones first, then by name. Extras count only where a package asks for them.
    """
    by_name = {str(canonicalize_name(package.name)): package for package in packages}
    requirements = _Requirements(by_name, environment)
    found = [
        skew
        for package, requirement in requirements.all()
        if (skew := _violated(package, requirement, by_name))
    ]
    found += [*_flashinfer(by_name), *requirements.unreadable]
    return sorted(found, key=lambda skew: (not skew.fatal, skew.package, skew.required_by))


def dependencies(
    packages: Sequence[Installed], environment: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return for each package, by normalised name, which of the others it asks for here."""
    by_name = {str(canonicalize_name(package.name)): package for package in packages}
    found: dict[str, set[str]] = {name: set() for name in by_name}
    for package, requirement in _Requirements(by_name, environment).all():
        asked = str(canonicalize_name(requirement.name))
        if asked in by_name:
            found[str(canonicalize_name(package.name))].add(asked)
    return found


def cure(skew: Skew) -> str | None:
    """Give the one requirement that ends a skew, `name==version`, or None.

    flashinfer-python, torch and vLLM itself are never moved: others are built against them.
    """
    if skew.package in _NEVER_MOVED or skew.kind == "unreadable":
        return None
    version = skew.required.removeprefix("==")
    try:
        Version(version)
    except InvalidVersion:
        return None
    return f"{skew.package}=={version}"


def _violated(
    package: Installed, requirement: Requirement, by_name: Mapping[str, Installed]
) -> Skew | None:
    name = str(canonicalize_name(requirement.name))
    required = str(requirement.specifier)
    there = by_name.get(name)
    if there is None:
        return Skew("missing", name, None, package.name, required)
    try:
        fits = requirement.specifier.contains(Version(there.version), prereleases=True)
    except InvalidVersion:
        fits = False
    return None if fits else Skew("requirement", name, there.version, package.name, required)


def _flashinfer(by_name: Mapping[str, Installed]) -> Iterator[Skew]:
    """Apply the rule that is in no metadata: flashinfer compares these versions at its import."""
    if FLASHINFER not in by_name:
        return
    wanted = Version(by_name[FLASHINFER].version)
    fatal = wanted < _ONLY_WARNS_FROM
    for name in (CUBIN, JIT_CACHE):
        if name not in by_name:
            continue
        there = by_name[name].version
        if not _goes_with(name, Version(there).public, wanted.public):
            yield Skew("flashinfer", name, there, FLASHINFER, f"=={wanted.public}", fatal)


def _goes_with(name: str, public: str, wanted: str) -> bool:
    return public == wanted or (name == JIT_CACHE and public.startswith(f"{wanted}."))
