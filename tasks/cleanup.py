"""Remove left-over debug dumps: by pattern, owner and age, listed and counted."""

from pydantic import BaseModel

from tasks.facts import Facts
from tasks.redeployment import Redeployment
from tasks.steps import step


class RemovedFile(BaseModel):
    """A file that is gone, and its size."""

    path: str
    bytes: int


class Cleaned(BaseModel):
    """What was removed."""

    removed: list[RemovedFile] = []
    count: int = 0
    bytes: int = 0


@step("cleanup")
def cleanup(run: Redeployment, before: Facts) -> Cleaned:
    """Remove the files that match the service's patterns and belong to the unit's user.

    Raises:
        StepFailed: a file could not be removed.
    """
    if not run.service.debug_files:
        return Cleaned()
    arguments = {
        "patterns": run.service.debug_files,
        "owner": before.unit.user or "root",
        "older_than_seconds": run.service.debug_file_age_seconds,
    }
    cleaned = Cleaned.model_validate(run.do("cleanup", "cleanup", arguments))
    run.log(f"{cleaned.count} debug files removed, {cleaned.bytes / 1e6:.1f} MB")
    return cleaned
