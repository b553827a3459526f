"""Settings of the controller, from the environment (`VLLM_REDEPLOY_…`) or a `.env` file."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What an operator may tune without touching a service."""

    model_config = SettingsConfigDict(
        env_prefix="VLLM_REDEPLOY_", env_file=".env", extra="ignore", frozen=True
    )

    config: Path = Field(Path("redeploy.toml"), description="hosts and services, kept in git")
    lease_seconds: int = Field(
        900, ge=60, description="how long an environment stays locked after its run fell silent"
    )
    ready_patience_seconds: float = Field(
        300,
        gt=0,
        le=86_400,
        description="how long a service that listens may take to answer as it should",
    )
    silence_seconds: int = Field(
        90, gt=30, description="how long a run under `serve` may give no sign of life"
    )
    resumptions: int = Field(
        3, ge=0, description="how often a run whose process died goes on by itself"
    )
    index_timeout_seconds: float = Field(20, gt=0, description="one request to a wheel index")
