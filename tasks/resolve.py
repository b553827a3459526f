"""Have the host's uv resolve a lock: from vLLM's wheel and what was asked for beside it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from tasks.errors import StepFailed
from tasks.facts import Facts
from tasks.packages.families import Installed, Skew, skews
from tasks.packages.repair import Repair, own_indexes, repairs
from tasks.packages.roots import roots
from tasks.redeployment import Redeployment
from tasks.request import SkewPolicy

_UNRESOLVABLE = "unresolvable"


class Resolved(BaseModel):
    """A lock.

    Attributes:
        lock: every package with its hashes, as uv writes it.
        packages: the lock's versions by name.
        kept: what stays as it is, since no index offers it so that it fits, and why.
    """

    lock: str
    packages: dict[str, str]
    kept: dict[str, str] = {}


class Found(NamedTuple):
    """A lock, and what had to be done for it.

    Attributes:
        resolved: the lock.
        repairs: packages that move beside what was asked for.
        first_indexes: indexes that were asked before the service's own, and hold some of it.
    """

    resolved: Resolved
    repairs: list[Repair]
    first_indexes: list[str]


def resolve(run: Redeployment, facts: Facts, requirement: str) -> Found:
    """Resolve vLLM and what was asked for beside it; a skew is repaired where that is asked for.

    Args:
        run: the redeploy.
        facts: the host as it is.
        requirement: the distribution that is vLLM here, and its wheel.

    Raises:
        StepFailed: vLLM itself cannot be resolved.
    """
    versions = facts.environment.versions()
    names = roots(facts.environment.installed(), facts.markers(), run.service.distribution)
    beside = {name: versions[name] for name in names}
    found = Resolver(run, requirement).resolve_or_keep(beside)
    wanted = repairs(skews_with(facts, found.packages))
    if not wanted or run.request.skew is not SkewPolicy.REPAIR:
        return Found(found, [], [])
    taken = {name: version for name, version in found.packages.items() if name in beside}
    taken |= {one.package: one.version for one in wanted}
    # A mirror that is declared has what is to be had; else the kernels' own index may.
    sources = [[]] if run.service.indexes else [[], own_indexes(wanted)]
    for number, first in enumerate(sources, 1):
        try:
            repaired = Resolver(run, requirement, first).resolve(
                f"resolve-repaired-{number}", taken
            )
        except StepFailed as failure:
            if failure.kind != _UNRESOLVABLE:
                raise
        else:
            return Found(repaired.model_copy(update={"kept": found.kept}), wanted, first)
    return Found(found, [], [])


def skews_with(facts: Facts, locked: Mapping[str, str]) -> list[Skew]:
    """Return what will be out of step once these are installed and all others stay.

    What a new version requires is not known before it is downloaded; uv has resolved that. What
    stays keeps its requirements.
    """
    kept = [one for one in facts.environment.installed() if one.name not in locked]
    moved = [Installed(name, version) for name, version in locked.items()]
    return skews([*moved, *kept], facts.markers())


class Resolver:
    """Resolves for the environment of one redeploy; each question is an operation of its host.

    Args:
        run: the redeploy.
        requirement: the distribution that is vLLM here, and its wheel.
        first_indexes: indexes that are asked before the service's own.
    """

    def __init__(
        self, run: Redeployment, requirement: str, first_indexes: Sequence[str] = ()
    ) -> None:
        self._run = run
        self._requirement = requirement
        self._first = list(first_indexes)

    def resolve(self, name: str, beside: Mapping[str, str]) -> Resolved:
        """Return a lock with vLLM and all of these at their versions, or fail.

        Args:
            name: what the operation is called.
            beside: a version for each name.

        Raises:
            StepFailed: there is no such lock; `kind` is `unresolvable`.
        """
        return self._ask(name, [f"{one}=={version}" for one, version in beside.items()], beside)

    def resolve_or_keep(self, beside: Mapping[str, str]) -> Resolved:
        """Return a lock with as much as can be of what was asked for beside vLLM.

        Each at the version it has; or else at another that fits; or else it is kept as it is.

        Raises:
            StepFailed: vLLM itself cannot be resolved.
        """
        try:
            return self.resolve("resolve", beside)
        except StepFailed as failure:
            if failure.kind != _UNRESOLVABLE or not beside:
                raise
        found = self._ask("resolve-alone", [], beside)
        taken: list[str] = []
        kept: dict[str, str] = {}
        for name, version in beside.items():
            ways = {f"resolve-{name}": f"{name}=={version}", f"resolve-{name}-moved": name}
            for operation, line in ways.items():
                try:
                    found = self._ask(operation, [*taken, line], beside)
                except StepFailed as failure:
                    if failure.kind != _UNRESOLVABLE:
                        raise
                    kept[name] = failure.message
                else:
                    taken.append(line)
                    kept.pop(name, None)
                    break
        return found.model_copy(update={"kept": kept})

    def _ask(self, name: str, requirements: Sequence[str], beside: Mapping[str, str]) -> Resolved:
        service = self._run.service
        asked: dict[str, Any] = {
            "environment": service.environment,
            "requirements": [self._requirement, *requirements],
            "constraints": [],
            "wheels": list(beside),  # what was built here is not built again against another torch
            "first_indexes": self._first,
            "indexes": service.indexes,
            "find_links": [],
        }
        return Resolved.model_validate(self._run.do("plan", "resolve", asked, operation=name))
