"""What the supervisor says about a host, typed (docs/supervisor.md, *Facts*)."""

from pydantic import BaseModel, ConfigDict

from tasks.packages.families import Installed, marker_environment


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class HostFacts(_Fact):
    """The machine."""

    name: str
    os: str
    kernel: str
    machine: str
    python: str
    boot_id: str
    time: float


class UvFacts(_Fact):
    """The uv that will install."""

    path: str
    version: str


class UnitFacts(_Fact):
    """The systemd unit as `systemctl show` and `cat` have it."""

    load_state: str
    active_state: str
    sub_state: str
    result: str
    exec_main_status: int | None = None
    main_pid: int | None = None
    invocation_id: str | None = None
    n_restarts: int = 0
    user: str | None = None
    fragment: str | None = None
    drop_ins: list[str] = []
    environment_files: list[str] = []
    exec_start: list[list[str]] = []
    needs_daemon_reload: bool = False

    @property
    def exists(self) -> bool:
        """Whether systemd knows the unit: an unknown one also says Result=success."""
        return self.load_state == "loaded"


class PackageFacts(_Fact):
    """One installed distribution, its name normalised."""

    name: str
    version: str
    requires: list[str] = []
    installer: str | None = None
    origin: str | None = None


class OtherUser(_Fact):
    """What else lives from the environment: another unit, or a process of one or of none."""

    unit: str | None = None
    pid: int | None = None
    command: str | None = None

    @property
    def in_words(self) -> str:
        """Return who it is."""
        name = self.unit or "a process of no unit"
        return f"{name} (pid {self.pid})" if self.pid else name

    @property
    def is_service(self) -> bool:
        """Tell whether it is a service, and not, say, somebody's shell."""
        return (self.unit or "").endswith(".service")


class EnvironmentFacts(_Fact):
    """The Python environment."""

    path: str
    exists: bool
    problem: str | None = None
    owner: str | None = None
    python: str | None = None
    python_version: str | None = None
    filesystem: str | None = None
    free_bytes: int | None = None
    used_bytes: int | None = None
    packages: list[PackageFacts] = []
    others: list[OtherUser] = []

    def versions(self) -> dict[str, str]:
        """Return the installed versions by name."""
        return {package.name: package.version for package in self.packages}

    def installed(self) -> list[Installed]:
        """Return the packages with what they require."""
        return [Installed(one.name, one.version, tuple(one.requires)) for one in self.packages]


class ModelFacts(_Fact):
    """The model's folder."""

    path: str
    exists: bool
    problem: str | None = None


class GpuProcess(_Fact):
    """A process that holds memory of a GPU, in bytes."""

    pid: int
    memory: int | None = None
    ours: bool = False
    command: str | None = None


class Gpu(_Fact):
    """One GPU, memory in bytes."""

    index: int
    name: str
    memory_total: int
    memory_used: int
    processes: list[GpuProcess] = []

    @property
    def baseline(self) -> int:
        """Return the memory in use that is not this service's, in bytes."""
        ours = sum(process.memory or 0 for process in self.processes if process.ours)
        return max(0, self.memory_used - ours)


class GpuFacts(_Fact):
    """The driver and its GPUs, as a process saw them that was started for it."""

    driver: str | None = None
    problem: str | None = None
    gpus: list[Gpu] = []


class Facts(_Fact):
    """One look at a host, a service and its environment."""

    host: HostFacts
    uv: UvFacts | None = None
    unit: UnitFacts
    environment: EnvironmentFacts
    model: ModelFacts | None = None
    gpus: GpuFacts = GpuFacts()
    replaced: list[str] = []

    def markers(self) -> dict[str, str]:
        """Return the values that requirements' markers have in the environment."""
        python = self.environment.python_version or self.host.python
        return marker_environment(python=python, machine=self.host.machine)

    def gpu_baseline(self) -> dict[str, int]:
        """Return the memory that others hold on each GPU this service uses, in bytes, by index."""
        return {
            str(gpu.index): gpu.baseline
            for gpu in self.gpus.gpus
            if any(process.ours for process in gpu.processes)
        }
