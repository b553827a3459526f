"""What an install changed: two lists of packages, compared."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Change = Literal["added", "removed", "up", "down", "changed", "reinstalled", "left"]


@dataclass(frozen=True)
class PackageChange:
    """What became of one package.

    `changed` is a version that cannot be ordered; `reinstalled` the same version, locked, so
    written anew; `left` the same version, not in the lock, so not touched.
    """

    name: str
    before: str | None
    after: str | None
    change: Change


@dataclass(frozen=True)
class PackageDiff:
    """What became of every package, by name."""

    changes: tuple[PackageChange, ...]
    locked: frozenset[str]

    @property
    def ups(self) -> tuple[PackageChange, ...]:
        """Return what got a newer version."""
        return self._having("up")

    @property
    def downs(self) -> tuple[PackageChange, ...]:
        """Return what got an older version."""
        return self._having("down")

    @property
    def reinstalled(self) -> tuple[PackageChange, ...]:
        """Return what was written anew at the version it had."""
        return self._having("reinstalled")

    @property
    def added(self) -> tuple[PackageChange, ...]:
        """Return what was not there before."""
        return self._having("added")

    @property
    def removed(self) -> tuple[PackageChange, ...]:
        """Return what is there no more."""
        return self._having("removed")

    @property
    def left_behind(self) -> tuple[PackageChange, ...]:
        """Return what is installed and not in the lock, if there is one, whatever it became."""
        return tuple(
            change
            for change in self.changes
            if self.locked and change.after is not None and change.name not in self.locked
        )

    def _having(self, change: Change) -> tuple[PackageChange, ...]:
        return tuple(one for one in self.changes if one.change == change)


def diff(
    before: Mapping[str, str], after: Mapping[str, str], locked: Collection[str]
) -> PackageDiff:
    """Compare two environments.

    Args:
        before: versions by name, as they were.
        after: versions by name, as they are.
        locked: the names in the lock; all of them were installed anew.

    Returns:
        Every package of either side, in the order of their names.
    """
    old, new = _by_name(before), _by_name(after)
    names = frozenset(str(canonicalize_name(name)) for name in locked)
    return PackageDiff(
        tuple(
            _change(name, old.get(name), new.get(name), name in names) for name in sorted(old | new)
        ),
        names,
    )


def unplanned(
    planned: PackageDiff, found: Mapping[str, str], moved: Collection[str] = ()
) -> list[str]:
    """Return the names of what is not installed as it was planned.

    Args:
        planned: what was to become of every package.
        found: versions by name, as they are.
        moved: names of what a remedy has moved knowingly.
    """
    wanted = {one.name: one.after for one in planned.changes}
    there = _by_name(found)
    differing = {name for name in wanted | there if wanted.get(name) != there.get(name)}
    return sorted(differing - {str(canonicalize_name(name)) for name in moved})


def _by_name(versions: Mapping[str, str]) -> dict[str, str]:
    return {str(canonicalize_name(name)): version for name, version in versions.items()}


def _change(name: str, before: str | None, after: str | None, locked: bool) -> PackageChange:
    if before is None:
        return PackageChange(name, before, after, "added")
    if after is None:
        return PackageChange(name, before, after, "removed")
    if before == after:
        return PackageChange(name, before, after, "reinstalled" if locked else "left")
    return PackageChange(name, before, after, _direction(before, after))


def _direction(before: str, after: str) -> Change:
    try:
        old, new = Version(before), Version(after)
    except InvalidVersion:
        return "changed"
    if old == new:
        return "changed"
    return "up" if new > old else "down"
