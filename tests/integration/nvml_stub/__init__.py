"""Builds the stand-in for NVIDIA's management library that real pynvml is tested against."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")
LIBRARY = "libnvidia-ml.so.1"
CONFIGURATION = "/run/nvml-stub.conf"


@dataclass(frozen=True)
class StubProcess:
    pid: int
    memory: int


@dataclass(frozen=True)
class StubGpu:
    uuid: str
    name: str
    total: int
    used: int
    processes: tuple[StubProcess, ...] = ()


def build_stub(folder: Path) -> Path:
    """Compile the library into a folder, for LD_LIBRARY_PATH, and return its path."""
    library = folder / LIBRARY
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE)],
        check=True,
        capture_output=True,
        text=True,
    )
    return library


def configuration(gpus: Iterable[StubGpu], driver: str = "580.95.05") -> str:
    """Return what the library is to say, as the text of its configuration."""
    lines = [f"driver {driver}"]
    for index, gpu in enumerate(gpus):
        lines.append(f"gpu {gpu.uuid} {gpu.total} {gpu.used} {gpu.name}")
        lines += [f"process {index} {one.pid} {one.memory}" for one in gpu.processes]
    return "\n".join(lines) + "\n"
