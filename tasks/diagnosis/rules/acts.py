"""What a remedy does: a few kinds of acts, each carried out by one verb of the supervisor."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tasks.diagnosis.symptoms import Facts

Argv = tuple[str, ...]


class _Act(BaseModel):
    model_config = ConfigDict(frozen=True)

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return what a person would type for it."""
        del facts
        return ()

    @property
    def words(self) -> tuple[str, ...]:
        """Return what is written down of it."""
        raise NotImplementedError


class Install(_Act):
    """Install packages: exact ones, or the newest that a requirement allows."""

    act: Literal["install"] = "install"
    packages: tuple[str, ...]
    indexes: tuple[str, ...] = ()
    """Where to look first, beside the service's own indexes."""

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return the installer's command."""
        options = (option for index in self.indexes for option in ("--index", index))
        return ((*facts.uv("install"), *options, *self.packages),)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the packages."""
        return self.packages


class Uninstall(_Act):
    """Take packages out of the environment."""

    act: Literal["uninstall"] = "uninstall"
    packages: tuple[str, ...]

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return the installer's command."""
        return ((*facts.uv("uninstall"), *self.packages),)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the packages, as taken out."""
        return tuple(f"{name} removed" for name in self.packages)


class FetchKernels(_Act):
    """Have vLLM itself fetch the kernels that no index has."""

    act: Literal["fetch-kernels"] = "fetch-kernels"

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return vLLM's command."""
        return ((f"{facts.bin}/vllm", "download-kernels"),)

    @property
    def words(self) -> tuple[str, ...]:
        """Return vLLM's command."""
        return ("vllm download-kernels",)


class DropIn(_Act):
    """Add lines to the unit's `[Service]` section, in a file of our own."""

    act: Literal["drop-in"] = "drop-in"
    lines: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Return the lines."""
        return self.lines


class EndLeftOvers(_Act):
    """End what is left in the unit's own control group once it has stopped.

    By control group and not by pid: systemd knows what is this unit's own.
    """

    act: Literal["end-left-overs"] = "end-left-overs"
    unit: str

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return systemd's commands."""
        del facts
        return (
            ("systemctl", "stop", "--", self.unit),
            ("systemctl", "kill", "--signal=SIGKILL", "--", self.unit),
            ("systemctl", "start", "--", self.unit),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """Return whose processes are ended."""
        return (f"left-over processes of {self.unit} ended",)


class SetAside(_Act):
    """Move a folder of a cache out of the way."""

    act: Literal["set-aside"] = "set-aside"
    path: str

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return the command that renames it."""
        del facts
        return (("mv", "--no-target-directory", "--", self.path, f"{self.path}.aside"),)

    @property
    def words(self) -> tuple[str, ...]:
        """Return which folder."""
        return (f"{self.path} set aside",)


class StartAgain(_Act):
    """Forget the failures that systemd has counted, and start anew, as every start here does."""

    act: Literal["start-again"] = "start-again"
    unit: str

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return systemd's commands."""
        del facts
        return (
            ("systemctl", "reset-failed", "--", self.unit),
            ("systemctl", "start", "--", self.unit),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """Return that it is started anew."""
        return ("started again",)


class GoBack(_Act):
    """Go back to the release before: the way every redeploy takes that cannot be cured."""

    act: Literal["go-back"] = "go-back"

    def commands(self, facts: Facts) -> tuple[Argv, ...]:
        """Return the supervisor's command for a person."""
        del facts
        return (("redeploy-supervisor", "rollback"),)

    @property
    def words(self) -> tuple[str, ...]:
        """Return that it went back."""
        return ("rolled back",)


Act = Annotated[
    Install | Uninstall | FetchKernels | DropIn | EndLeftOvers | SetAside | StartAgain | GoBack,
    Field(discriminator="act"),
]
