"""The plan as data."""

from pydantic import BaseModel

from tasks.packages.diff import PackageDiff
from tasks.packages.families import Skew
from tasks.packages.index import Wheel
from tasks.packages.repair import Repair
from tasks.packages.versions import CommitDelta


class Plan(BaseModel):
    """What a redeploy will do.

    Attributes:
        before: the version that is installed.
        after: the version that will be.
        wheel: where it comes from; None for a release that lies on the host.
        lock: every package with its hashes, as uv writes it.
        locked: the lock's versions by name.
        changes: what becomes of each package, those that stay behind included.
        delta: the commits between the two versions.
        skews: packages that will be out of step.
        repairs: packages that move beside what was asked for, so that they are not.
        kept: what stays as it is, since no index offers it so that it fits, and why.
        orphans: what stays though nothing needs it any more.
        first_indexes: indexes that are asked before the service's own.
        switch: how the environments will be exchanged: "exchange", or "two-step".
        down_seconds: how long the service was down in redeploys like this one; None: unknown.
        commands: what runs on the host while it is down, in order.
        back_to: the folder of the release to go back to; None where a new one is built.
    """

    before: str
    after: str
    wheel: Wheel | None
    lock: str
    locked: dict[str, str]
    changes: PackageDiff
    delta: CommitDelta
    skews: list[Skew]
    repairs: list[Repair] = []
    kept: dict[str, str] = {}
    orphans: list[str] = []
    first_indexes: list[str] = []
    switch: str = "exchange"
    down_seconds: float | None = None
    commands: list[str] = []
    back_to: str | None = None
