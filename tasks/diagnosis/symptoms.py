"""What a diagnosis looks at beside the journal: what is installed, and how the service died."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tasks.diagnosis.journal import Entry
from tasks.diagnosis.rootcause import RootCause
from tasks.diagnosis.statements import Weight
from tasks.packages.families import Installed, Skew, marker_environment, skews

DeathKind = Literal[
    "crashed",
    "exited",
    "hung",
    "stalled",
    "gone",
    "running",
    "not-ready",
    "port-taken",
    "start-refused",
    "gpus-busy",
    "not-asked",
]


_READY = "Application startup complete"


class Facts(BaseModel):
    """What is installed on the host.

    Attributes:
        packages: every distribution of the environment.
        python: the environment's Python version.
        machine: as `platform.machine()` says.
        environment: the environment's folder, if known.
        unit: the service's unit, if known.
        resolvable: where a package that is missing can be had: `configured` indexes,
            `flashinfer`'s own, `download` by vLLM itself; None where nobody looked.
        has_nvcc: whether the service finds a CUDA compiler; None where nobody looked.
        has_ninja: the same of ninja.
        brings_ninja: whether the environment has a ninja of its own; None where nobody looked.
        path: where the service looks for programs; None where nobody looked.
        runs_as_owner: whether the service's user is the environment's owner, whose caches it reads
            then; None where nobody looked.
        left_overs: what is left of the unit's earlier starts while it does not run.
        gpu_processes: the commands of strangers that hold the GPUs; None where nobody looked.
    """

    model_config = ConfigDict(frozen=True)

    packages: tuple[Installed, ...] = ()
    python: str = "3.12"
    machine: str = "x86_64"
    environment: str | None = None
    unit: str | None = None
    resolvable: frozenset[str] | None = None
    has_nvcc: bool | None = None
    has_ninja: bool | None = None
    brings_ninja: bool | None = None
    path: str | None = None
    runs_as_owner: bool | None = None
    left_overs: tuple[str, ...] = ()
    gpu_processes: tuple[str, ...] | None = None

    @property
    def are_known(self) -> bool:
        """Whether anybody looked at a host; a file alone tells nothing of what is installed."""
        return bool(self.packages)

    @property
    def bin(self) -> str:
        """Return where the environment's programs lie; relative where it is unknown."""
        return f"{self.environment}/bin" if self.environment else "bin"

    def can(self, source: str, *, unknown: bool) -> bool:
        """Whether a source has what is missing; `unknown` where nobody looked."""
        return unknown if self.resolvable is None else source in self.resolvable

    def uv(self, verb: str) -> tuple[str, ...]:
        """Return the beginning of an installer's command for this environment."""
        return ("uv", "pip", verb, "--python", f"{self.bin}/python")

    @classmethod
    def from_supervisor(cls, document: Mapping[str, Any]) -> "Facts":
        """Read the supervisor's `facts` (docs/supervisor.md), as they came or dumped again."""
        environment = document["environment"]
        tools, unit = document.get("tools") or {}, document.get("unit") or {}
        owner = environment.get("owner")
        return cls(
            packages=tuple(
                Installed(one["name"], one["version"], tuple(one.get("requires", ())))
                for one in environment["packages"]
            ),
            python=environment.get("python_version") or "3.12",
            machine=document["host"]["machine"],
            environment=environment.get("path"),
            unit=unit.get("name"),
            runs_as_owner=None if owner is None else (unit.get("user") or "root") == owner,
            has_nvcc=tools.get("nvcc"),
            has_ninja=tools.get("ninja"),
            brings_ninja=tools.get("own_ninja"),
            path=tools.get("path"),
            left_overs=tuple(_named(one) for one in document.get("left_overs", ())),
            gpu_processes=_strangers(document.get("gpus")),
        )

    def version(self, name: str) -> str | None:
        """Return the installed version of a package."""
        return next((one.version for one in self.packages if one.name == name), None)

    def skews(self) -> list[Skew]:
        """Return what does not go together."""
        return skews(self.packages, marker_environment(python=self.python, machine=self.machine))


def _named(process: Mapping[str, Any]) -> str:
    return f"{process['pid']} ({process.get('command') or 'unknown'})"


def _strangers(gpus: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """Return who holds the GPUs beside the service itself."""
    if not gpus or gpus.get("problem"):
        return None
    processes = (one for gpu in gpus.get("gpus", ()) for one in gpu.get("processes", ()))
    return tuple(dict.fromkeys(str(one["command"]) for one in processes if not one.get("ours")))


class Death(BaseModel):
    """How the service died, as the supervisor's `watch` says it.

    Attributes:
        kind: `crashed`, `exited` (status 0, unexpected), `hung` (at a deadline), `stalled`, `gone`;
            `running` did not die; `not-ready` serves, but not as asked; `start-refused`,
            `gpus-busy` was not started; `not-asked` where only a log was read.
        unit: the unit's properties; `result`, `exec_main_status` and `exec_main_code` are read.
        last_stage: how far the start had come.
    """

    model_config = ConfigDict(frozen=True)

    kind: DeathKind
    unit: dict[str, Any] = {}
    last_stage: str | None = None

    @property
    def result(self) -> str:
        """Return systemd's word for it: `exit-code`, `signal`, `oom-kill` or another."""
        return str(self.unit.get("result") or "")

    @property
    def was_killed(self) -> bool:
        """Whether somebody sent SIGKILL; systemd shows the code as a word or as CLD_KILLED."""
        status, code = self.unit.get("exec_main_status"), self.unit.get("exec_main_code")
        by_signal = self.result in ("signal", "oom-kill") or str(code) in ("killed", "2")
        return by_signal and str(status) in ("9", "KILL", "SIGKILL")

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        says = {
            "crashed": f"the service crashed (systemd: {self.result or 'no result'}, "
            f"status {self.unit.get('exec_main_status', 'unknown')})",
            "exited": "the service ended by itself with status 0",
            "hung": "the service did not get ready in time",
            "stalled": "nothing of the service moved any more",
            "port-taken": "another process listens where the service should",
            "gone": "the service is gone: systemd no longer knows this start of it",
            "running": "the service runs",
            "not-ready": "the service runs, but does not serve what was asked for",
            "start-refused": f"systemd did not start it (result: {self.result or 'unknown'})",
            "not-asked": "how the service ended was not asked, only its log was read",
            "gpus-busy": "it was not started, since its GPUs were still in use",
        }
        at = f" at stage {self.last_stage}" if self.last_stage else ""
        return says[self.kind] + at


@dataclass(frozen=True)
class Symptoms:
    """Everything a rule may look at."""

    entries: Sequence[Entry]
    root_cause: RootCause | None
    facts: Facts
    death: Death
    lines_read: int | None = None

    @property
    def names_a_cause(self) -> bool:
        """Whether the journal says of what it died, and not only that it did."""
        return self.root_cause is not None and self.root_cause.is_known

    @property
    def hangs(self) -> bool:
        """Whether the journal only says that nothing moves any more."""
        return self.root_cause is not None and self.root_cause.weight in (
            Weight.HANGS,
            Weight.STANDS,
        )

    @property
    def served(self) -> bool:
        """Whether the journal shows that it came to serving."""
        return any(_READY in entry.message for entry in self.entries)
