"""Is a start moving, slow or stalled? Judged by what its processes do, not by its log alone.

Python 3.9 and the standard library only: the supervisor carries this file to the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tasks.startup.progress import spell

FLOOR_SECONDS = 300.0
"""No quiet shorter than this is worth a word, whatever earlier starts took."""

_CPU_CORES = 0.1
_BYTES_A_SECOND = 100_000.0
_GPU_BYTES = 8 << 20


class Sample(NamedTuple):
    """What was measured of the unit's processes at one time; None: it cannot be measured here.

    Attributes:
        time: seconds on any steady clock.
        lines: lines logged so far that say something new (`Progress.news`).
        gpu_bytes: GPU memory held now, over all its GPUs.
        cpu_seconds: CPU time used so far.
        disk_bytes: bytes read and written so far.
        net_bytes: bytes received and sent so far.
    """

    time: float
    lines: int | None = None
    gpu_bytes: int | None = None
    cpu_seconds: float | None = None
    disk_bytes: int | None = None
    net_bytes: int | None = None


class Judgement(NamedTuple):
    """How it goes: "moving", "slow", "stalled" or "unknown"; how long it is quiet; why.

    Of a process that spins: how long all but its CPU is quiet.
    """

    kind: str
    quiet_seconds: float
    why: str


def judge(
    samples: Sequence[Sample],
    stage: str,
    longest_ever: float | None,
    floor: float = FLOOR_SECONDS,
) -> Judgement:
    """Judge a start by its samples, oldest first; see `Moves.judge`."""
    moves = Moves()
    for sample in samples:
        moves.add(sample)
    return moves.judge(stage, longest_ever, floor)


class Moves:
    """What has moved in a start so far. A sample is looked at once and not kept.

    So a judgement after hours costs what the first one did.
    """

    def __init__(self) -> None:
        self._samples = 0
        self._began = self._now = 0.0
        self._measures = {name: _Measure(name) for name in Sample._fields[1:]}
        self._alone: _Cpu | None = None
        self._cpu: _Cpu | None = None

    def add(self, sample: Sample) -> None:
        """Take in a sample; they come in the order of their times."""
        self._began = self._began if self._samples else sample.time
        self._now = sample.time
        self._samples += 1
        for name, measure in self._measures.items():
            if measure.add(sample.time, getattr(sample, name)) and name != "cpu_seconds":
                self._alone = None
        if sample.cpu_seconds is not None:
            self._cpu = _Cpu(sample.time, sample.cpu_seconds)
            self._alone = self._alone or self._cpu

    def judge(
        self, stage: str, longest_ever: float | None, floor: float = FLOOR_SECONDS
    ) -> Judgement:
        """Judge the start.

        - "moving": something has moved within the patience, or the quiet is no longer than that.
          The patience is the longest that this stage ever took, and at least the floor.
        - "stalled": log, GPU memory, CPU, disk and network have all been quiet for longer than the
          patience, and earlier starts tell how long this stage takes. Only this may be acted on.
        - "slow": as quiet, but on a first start there is nothing to compare with; so it is reported
          and waited for until its deadline, never called stalled.
        - "slow" also for a process that *spins*: for longer than the patience it has used CPU and
          moved nothing else. It is not "moving", because NCCL's and the message queue's waiting
          loops burn a whole core each for ever in a deadlock. It is not "stalled" either, because
          a cold compile of a new version is CPU alone too, and may well take longer than all the
          warm ones on record: stopping it would throw the compile away and the next start would
          begin the same one again. A person is told that it spins and for how long; only the
          stage's deadline ends it.
        - "unknown": there is nothing to compare yet, or the CPU cannot be looked at and all the
          rest is quiet: a process that cannot be seen is not called dead.
        """
        if self._samples < 2:
            return Judgement("unknown", 0.0, "There is no second sample to compare with yet.")
        moves = {name: one.moved_at for name, one in self._measures.items()}
        seen = {name: at for name, at in moves.items() if at is not None}
        if not seen:
            return Judgement("unknown", 0.0, "Nothing of it can be measured.")
        beside_cpu = (at for name, at in seen.items() if name != "cpu_seconds")
        quiet = self._now - max(seen.values())
        quiet_beside_cpu = self._now - max(beside_cpu, default=self._began)
        patience = max(floor, longest_ever or 0.0)
        if quiet > patience:
            return _quiet(quiet, stage, longest_ever, patience, moves)
        if quiet_beside_cpu > patience and "cpu_seconds" in seen:
            return _spinning(self._cores(), quiet_beside_cpu, stage, longest_ever, moves)
        if quiet_beside_cpu > quiet and quiet_beside_cpu > floor:
            why = f"Only its CPU has been busy for {spell(quiet_beside_cpu)}."
            return Judgement("moving", quiet, why)
        moving = [_WORDS[name] for name, at in seen.items() if self._now - at <= quiet]
        since = "now" if quiet == 0 else f"{spell(quiet)} ago"
        return Judgement("moving", quiet, f"It last moved {since}: {', '.join(moving)}.")

    def _cores(self) -> float:
        """Return how many cores were busy since anything else moved."""
        if self._cpu is None or self._alone is None:
            return 0.0
        used = self._cpu.seconds - self._alone.seconds
        return used / max(1.0, self._cpu.time - self._alone.time)


class _Cpu(NamedTuple):
    """The CPU time used until a moment."""

    time: float
    seconds: float


class _Measure:
    """One measure: when it last moved, and the value that it is compared with."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known = 0
        self._moved_at: float | None = None
        self._mark = self._mark_at = 0.0

    @property
    def moved_at(self) -> float | None:
        """When it last moved, or the first sample's time; None: it was never there."""
        return self._moved_at if self._known > 1 else None

    def add(self, time: float, value: float | None) -> bool:
        """Take in its value at a time, and tell whether it has moved."""
        if self._moved_at is None:
            self._moved_at = time
        if value is None:
            return False
        self._known += 1
        first = self._known == 1
        moved = not first and _moved(self._name, value - self._mark, time - self._mark_at)
        if moved:
            self._moved_at = time
        if first or moved or self._name != "gpu_bytes":
            self._mark, self._mark_at = value, time
        return moved


_WORDS = {
    "lines": "log",
    "gpu_bytes": "GPU memory",
    "cpu_seconds": "CPU",
    "disk_bytes": "disk",
    "net_bytes": "network",
}


def _quiet(
    quiet: float,
    stage: str,
    longest_ever: float | None,
    patience: float,
    moves: dict[str, float | None],
) -> Judgement:
    watched = ", ".join(_WORDS[name] for name, at in moves.items() if at is not None)
    why = f"Nothing has moved for {spell(quiet)} ({watched})" + _unseen(moves)
    if moves["cpu_seconds"] is None:
        return Judgement("unknown", quiet, f"{why}.")
    if longest_ever is None:
        why += f"; no earlier start tells how long {stage!r} may take"
        return Judgement("slow", quiet, f"{why}.")
    why += f"; {stage!r} has never taken longer than {spell(longest_ever)}"
    if patience > longest_ever:
        why += f", and it was given {spell(patience)}"
    return Judgement("stalled", quiet, f"{why}.")


def _spinning(
    cores: float,
    spun: float,
    stage: str,
    longest_ever: float | None,
    moves: dict[str, float | None],
) -> Judgement:
    why = (
        f"It spins: {cores:.1f} cores busy for {spell(spun)}, and nothing else has moved; "
        f"a deadlock looks like this, and so does a long compile"
    )
    why += _unseen(moves)
    if longest_ever is not None:
        why += f"; {stage!r} has never taken longer than {spell(longest_ever)}"
    return Judgement("slow", spun, f"{why}.")


def _unseen(moves: dict[str, float | None]) -> str:
    names = [_WORDS[name] for name, at in moves.items() if at is None]
    return f"; {', '.join(names)} could not be looked at" if names else ""


def _moved(name: str, change: float, seconds: float) -> bool:
    """Tell a real change from a hum: logging writes a little, idle processes wake up at times.

    A counter that falls says that a process has ended. That moves nothing: the others may well
    wait for it for ever.
    """
    if name == "lines":
        return change != 0
    if name == "gpu_bytes":
        return abs(change) >= _GPU_BYTES
    rate = change / seconds if seconds > 0 else 0.0
    return rate >= (_CPU_CORES if name == "cpu_seconds" else _BYTES_A_SECOND)
