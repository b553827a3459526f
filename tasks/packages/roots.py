"""What an operator asked for beside vLLM: everything installed that nothing else requires."""

from collections.abc import Iterable, Mapping, Sequence

from tasks.packages.families import Installed, dependencies

_MAKERS = frozenset({"pip", "setuptools", "wheel", "uv"})
"""What makes an environment; they come with it and nobody has asked for them."""


def roots(
    packages: Sequence[Installed], environment: Mapping[str, str], distribution: str
) -> list[str]:
    """Return the names of what was asked for, so that the rest follows from them and from vLLM.

    Of packages that require each other in a circle, and that nothing else requires, it is the
    first by name.

    Args:
        packages: everything installed.
        environment: marker values, see `marker_environment`.
        distribution: the distribution that is vLLM here, which is not among them.
    """
    asks = dependencies(packages, environment)
    asked = {other for name, others in asks.items() for other in others if other != name}
    found = sorted(name for name in asks if name not in asked and name != distribution)
    covered = _closure([distribution, *found], asks)
    for name in sorted(asks):
        if name not in covered:
            found.append(name)
            covered |= _closure([name], asks)
    return sorted(set(found) - _MAKERS)


def orphans(
    packages: Sequence[Installed],
    environment: Mapping[str, str],
    distribution: str,
    locked: Iterable[str],
) -> list[str]:
    """Return what stays installed though nobody asked for it and nothing in the lock needs it.

    Args:
        packages: everything installed.
        environment: marker values.
        distribution: the distribution that is vLLM here.
        locked: the names in the lock.
    """
    kept = set(roots(packages, environment, distribution)) - set(locked)
    stay = _closure(kept, dependencies(packages, environment)) | set(locked) | _MAKERS
    return sorted({package.name for package in packages} - stay)


def _closure(names: Iterable[str], asks: Mapping[str, set[str]]) -> set[str]:
    """Return the names and all that they ask for, directly or not."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += asks.get(name, ())
    return found
