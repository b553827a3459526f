"""What an operator asks for. This one model is the form, the API and the command line."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from blocks.types import OneLine, ServiceName, Whole

PREVIOUS = "previous"
"""The target of a rollback; a redeploy refuses it."""
_PLACE = r"(https?:/)?/[!-?A-~]+/[!-?A-~]+\.whl(#sha256=[0-9a-f]{64})?"  # without a user's name
TARGET = rf"^(nightly|latest|previous|[0-9a-f]{{7,40}}|\d+(\.\d+)*[0-9A-Za-z.+!_-]*|{_PLACE})$"


RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class Strategy(StrEnum):
    """When the service is stopped."""

    CLASSIC = "classic"
    STAGED = "staged"


class SkewPolicy(StrEnum):
    """What happens when the plan finds packages out of step."""

    REFUSE = "refuse"
    PROCEED = "proceed"
    REPAIR = "repair"


class Request(BaseModel):
    """One redeploy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    service: ServiceName = Field(title="Service", description="The name of a saved service block.")
    target: str = Field(
        "nightly",
        title="Target",
        pattern=TARGET,
        max_length=500,
        description="`nightly`, `latest` (the newest stable release), an exact version, a commit "
        "(7 to 40 hex digits), or a wheel: its URL, or its path on the host.",
    )
    strategy: Strategy = Field(
        Strategy.STAGED,
        title="Strategy",
        description="`staged` installs beside the running release and stops the service for the "
        "switch alone; `classic` stops it first.",
    )
    skew: SkewPolicy = Field(
        SkewPolicy.REPAIR,
        title="Packages out of step",
        description="`repair` moves what was left behind, beside the running release; `refuse` "
        "stops before the service is touched; `proceed` goes on knowingly.",
    )
    plan_only: bool = Field(
        False, title="Plan only", description="Show what would happen and change nothing."
    )
    even_if_broken: bool = Field(
        False,
        title="Even if broken",
        description="Go on although the running release does not serve as configured.",
    )
    reinstall: bool = Field(
        False,
        title="Reinstall anyway",
        description="Go on when the target is what is installed already, or a nightly that was "
        "rejected here.",
    )
    attempts: Whole = Field(
        3, title="Attempts", ge=1, le=5, description="How many starts before the way back."
    )
    benchmark: bool = Field(
        True, title="Benchmark", description="Run `vllm bench serve` at the end."
    )
    wait_minutes: Whole = Field(
        0,
        title="Wait for the environment",
        ge=0,
        le=24 * 60,
        description="How long to wait where another redeploy holds the environment; 0: refuse.",
    )
    in_window: bool = Field(
        False,
        title="In the window only",
        description="Do nothing where it would not end within the service's maintenance window.",
    )
    reason: OneLine = Field(
        "", title="Reason", max_length=500, description="Why; kept in the record."
    )
    requested_by: OneLine = Field("", title="Requested by", max_length=100, description="Who asks.")
    resume: RunId | None = Field(
        None,
        title="Resume",
        description="The id of a redeploy that was cut off: go on where its host's record ends.",
    )

    @property
    def who(self) -> str:
        """Return who asks; only Prefect's form and API ask without a name."""
        return self.requested_by or "Prefect's UI or API"
