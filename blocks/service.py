"""The service: one systemd unit that runs `vllm serve` from one environment on a host."""

from typing import Annotated, Any, Self

from prefect.blocks.core import Block
from prefect.client.schemas.schedules import CronSchedule
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from blocks.hooks import OptionalHook
from blocks.host import Host
from blocks.types import (
    AbsolutePath,
    Glob,
    Kind,
    Number,
    PackageName,
    Port,
    UnitName,
    Whole,
    bearer_key,
    one_line,
)
from blocks.urls import IndexUrl
from tasks.startup.limits import Limits

ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]


Marker = Annotated[str, Field(min_length=3, max_length=200), AfterValidator(one_line)]
ModelName = Annotated[
    str, Field(min_length=1, max_length=300, pattern=r"^[^-]"), AfterValidator(one_line)
]


Window = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$")]


def _cron(value: str) -> str:
    CronSchedule(cron=value)
    return value


def _stages(value: dict[str, float]) -> dict[str, float]:
    Limits().with_stages(value)
    return value


def _none_if_empty(value: object) -> object:
    return value or None  # an empty field of Prefect's form


ApiKey = Annotated[SecretStr | None, BeforeValidator(_none_if_empty), AfterValidator(bearer_key)]
StageLimits = Annotated[dict[str, Number], AfterValidator(_stages)]
CronText = Annotated[str, AfterValidator(_cron)]


def _title(name: str, _info: object) -> str:
    return name.replace("_", " ").capitalize()


class BenchmarkShape(BaseModel):
    """How much `vllm bench serve` sends after a redeploy."""

    model_config = ConfigDict(extra="forbid")

    num_prompts: Whole = Field(50, ge=1, le=10_000, description="requests")
    input_len: Whole = Field(128, ge=1, le=1_000_000, description="prompt tokens a request")
    output_len: Whole = Field(64, ge=2, le=1_000_000, description="generated tokens a request")
    deadline_seconds: Whole = Field(
        900, ge=5, le=3600, description="a benchmark that has not ended after this has failed"
    )


class Service(Block):
    """A vLLM service: its unit, its environment, and where its wheels come from."""

    _block_type_name = "vLLM service"
    _block_type_slug = "vllm-service"
    _description = "One systemd unit that runs `vllm serve` on a host."

    model_config = ConfigDict(field_title_generator=_title, hide_input_in_errors=True)

    host: Host = Field(description="the host it runs on")
    unit: UnitName = Field(description="the systemd unit, for example `vllm.service`")
    environment: AbsolutePath = Field(description="the folder of its Python environment")
    distribution: PackageName = Field(
        "vllm", description="the distribution that is vLLM here: `vllm`, or a build of it"
    )
    port: Port = Field(8000, description="the port it serves on")
    model: AbsolutePath | None = Field(None, description="the folder of the model's files")
    served_model: ModelName | None = Field(None, description="the model's name in the API")
    kind: Kind = Field(
        Kind.AUTO, description="what it answers; `auto`: the first of these that it does answer"
    )
    api_key: ApiKey = Field(None, description="the bearer key of its API")
    wheel_index: IndexUrl = Field(
        "https://wheels.vllm.ai", description="base of the index of nightly wheels"
    )
    variant: str | None = Field(
        None, pattern=r"^[a-z]+\d*$", description="the wheels' variant, for example `cu130`"
    )
    indexes: list[IndexUrl] = Field(
        default_factory=list,
        description="package indexes, first one first; empty: as uv is configured on the host",
    )
    imports: list[ModuleName] = Field(
        default_factory=lambda: ["vllm"],
        max_length=100,
        description="modules that must import before the switch",
    )
    markers: list[Marker] = Field(
        default_factory=list,
        max_length=100,
        description="text that only left-over debug code contains",
    )
    debug_files: list[Glob] = Field(
        default_factory=list, max_length=100, description="dumps to remove, for example `/tmp/*.pt`"
    )
    debug_file_age_seconds: Whole = Field(0, ge=0, description="younger dumps are kept")
    forbidden_config_keys: list[Marker] = Field(
        default_factory=list,
        max_length=100,
        description="keys that the model's config.json must not have",
    )
    start_deadline_seconds: Whole = Field(
        7200, ge=5, le=7 * 86_400, description="a start that does not serve after this has failed"
    )
    stage_limits: StageLimits = Field(
        default_factory=dict,
        description="the longest that single stages may take, in seconds, over the defaults: "
        '`{ "loading weights" = 5400 }`',
    )
    stall_seconds: Whole = Field(
        300,
        ge=5,
        le=86_400,
        description="no start counts as stalled before nothing has moved for so long",
    )
    restarts_tolerated: Whole = Field(
        0,
        ge=0,
        le=10,
        description="how often systemd may restart it on the way; more is a failed start",
    )
    steady_seconds: Whole = Field(
        10, ge=0, le=86_400, description="how long it has to serve without a restart to count"
    )
    stop_timeout_seconds: Whole = Field(
        300, ge=1, le=86_400, description="how long a stop may take"
    )
    gpu_wait_seconds: Whole = Field(
        120,
        ge=0,
        le=86_400,
        description="how long to wait for this service's GPU memory before a start",
    )
    grace_seconds: Whole = Field(
        600,
        ge=1,
        le=86_400,
        description="how long its host waits for a redeploy that has fallen silent while the "
        "service is stopped or its start has failed; then it goes back by itself",
    )
    drain: OptionalHook = Field(None, description="takes it out of its router before it is stopped")
    undrain: OptionalHook = Field(
        None, description="puts it back into its router once it serves again"
    )
    drain_deadline_seconds: Whole = Field(
        120, ge=0, le=86_400, description="how long requests under way are waited for"
    )
    nightly: CronText | None = Field(
        None, description="when the nightly schedule redeploys it, as cron in UTC: `0 3 * * *`"
    )
    window: Window | None = Field(
        None,
        description="when the nightly schedule may redeploy it, in UTC: `22:00-05:00`; it does "
        "nothing where it might not end within it, way back included",
    )
    benchmark: BenchmarkShape = Field(default_factory=lambda: BenchmarkShape.model_validate({}))

    @model_validator(mode="after")
    def _drained_and_put_back(self) -> Self:
        if (self.drain is None) != (self.undrain is None):
            raise ValueError("drain and undrain go together: what is taken out is put back")
        return self

    def location(self) -> dict[str, Any]:
        """Return what the supervisor's `facts` needs to find this service on its host."""
        return {
            "unit": self.unit,
            "environment": self.environment,
            "distribution": self.distribution,
            "model": self.model,
        }
