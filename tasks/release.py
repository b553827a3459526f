"""The record of a redeploy, kept on the host: the release and how it came to be."""

from typing import Any, Literal

from pydantic import BaseModel

from tasks.packages.diff import PackageDiff
from tasks.packages.repair import Repair
from tasks.packages.versions import CommitDelta

Result = Literal["live", "live, benchmark failed", "rolled back", "down"]


class StepRecord(BaseModel):
    """One step: how long the flow waited for it and how long the host worked, in seconds.

    `seconds` is None for a step that a resumed run found finished; "unfinished" is one that still
    ran when this was written, or was interrupted and not done again.
    """

    phase: str
    step: str
    outcome: Literal["ok", "failed", "unfinished"]
    seconds: float | None
    host_seconds: float


class StartRecord(BaseModel):
    """A start that became ready, as a measure for later ones.

    `seconds` are those of each stage; `cache` says whether code was compiled "cold" or "warm";
    `kind` what the service answers.
    """

    host: str
    model: str
    flags: list[str] = []
    version: str
    seconds: dict[str, float] = {}
    cache: str | None = None
    restarts: int = 0
    kind: str = "auto"


class AttemptRecord(BaseModel):
    """One attempt to start: what failed in it, why, and what cured it.

    `failure` is the step's own sentence, `cause` what diagnosis made of it, `root_cause` what the
    service itself said first. `remarks` are what was odd about a start that serves all the same.
    """

    number: int
    outcome: Literal["healthy", "failed"]
    failed_step: str | None = None
    failure: str | None = None
    kind: str | None = None
    rule: str | None = None
    cause: str | None = None
    root_cause: str | None = None
    last_lines: list[str] = []
    advice: str | None = None
    remedy: list[str] | None = None
    remarks: list[str] = []


class ReleaseRecord(BaseModel):
    """What a redeploy did.

    `repairs` were made in the staging; `unplanned` are packages that are live and not as planned.
    """

    id: str
    time: str
    service: str
    host: str
    unit: str
    environment: str
    distribution: str
    target: str
    strategy: str
    skew: str
    who: str
    why: str
    result: Result
    verdict: str
    before: str
    after: str
    delta: CommitDelta
    changes: PackageDiff
    repairs: list[Repair] = []
    unplanned: list[str] = []
    cancelled: bool = False
    locked: int
    packages: int
    files_removed: list[str] = []
    bytes_removed: int = 0
    attempts: list[AttemptRecord] = []
    steps: list[StepRecord] = []
    seconds: float = 0
    stopped_seconds: float | None = None
    starts: list[StartRecord] = []
    metrics_gone: list[str] = []
    requests_cut_off: int | None = None
    benchmark: dict[str, Any] | None = None
    previous: str | None = None
    lock: str = ""
