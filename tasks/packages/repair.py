"""What puts a family right before the stop: in the staging, what stayed behind moves."""

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict

from tasks.packages.families import CUBIN, FLASHINFER_INDEX, JIT_CACHE, Skew, cure


class Repair(BaseModel):
    """One package that moves beside what was asked for.

    Attributes:
        package: its name.
        before: the version that is installed.
        version: what is locked instead.
        sentence: why.
    """

    model_config = ConfigDict(frozen=True)

    package: str
    before: str | None
    version: str
    sentence: str


def repairs(skews: Iterable[Skew]) -> list[Repair]:
    """Return what ends the skews that would stop the service from starting, as far as known."""
    return [
        Repair(
            package=skew.package,
            before=skew.installed,
            version=requirement.partition("==")[2],
            sentence=skew.sentence,
        )
        for skew in skews
        if skew.fatal and (requirement := cure(skew))
    ]


def own_indexes(repairs_: Iterable[Repair]) -> list[str]:
    """Return the indexes of FlashInfer itself that hold what a repair asks for.

    Newer kernels are published there alone; those for one CUDA version below that version's name.
    """
    found = []
    for repair in repairs_:
        if repair.package == CUBIN:
            found.append(FLASHINFER_INDEX)
        elif repair.package == JIT_CACHE and (cuda := _cuda(repair.before)):
            found.append(f"{FLASHINFER_INDEX}/{cuda}")
    return found


def _cuda(version: str | None) -> str | None:
    try:
        local = Version(version or "").local or ""
    except InvalidVersion:
        return None
    return local if local.startswith("cu") and local[2:].isdigit() else None
