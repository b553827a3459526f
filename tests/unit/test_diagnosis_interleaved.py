"""The same lines in any order of their speakers are the same failure."""

import random
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

import pytest

from tasks.diagnosis.journal import Entry, read
from tasks.diagnosis.rootcause import RootCause, root_cause
from tasks.diagnosis.tracebacks import split

CASES = Path(__file__).parent.parent / "cases" / "diagnosis"
TURNS = 25


def voices(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Part a journal by who speaks; what has no number goes with the voice of its identifier."""
    parted: dict[Hashable, list[Entry]] = {}
    for entry in entries:
        line = split(entry)
        parted.setdefault((line.process, line.pid, entry.identifier), []).append(entry)
    return list(parted.values())


def mixed(parts: Sequence[Sequence[Entry]], chosen: random.Random) -> list[Entry]:
    """Put voices together in some order; each keeps its own."""
    turns = [place for place, part in enumerate(parts) for _ in part]
    chosen.shuffle(turns)
    left = [iter(part) for part in parts]
    return [
        Entry(number, one.message, one.time, one.pid, one.comm, one.identifier, one.unit)
        for number, one in enumerate((next(left[place]) for place in turns), start=1)
    ]


def told(cause: RootCause | None) -> tuple[str | None, str, int]:
    """Return what must not depend on the order: the failure, whose it is, how many say it."""
    if cause is None:
        return None, "", 0
    return cause.text.split("\n")[0], cause.process, cause.times_seen


def workers(count: int, said: Callable[[int], str]) -> list[Entry]:
    """A start in which all workers fail in one way, the engine and the server after them."""
    file = "/opt/vllm/lib/python3.12/site-packages/vllm/v1"
    lines = [
        f"(Worker_TP{rank} pid={600 + rank}) ERROR 12-01 12:00:00 [executor.py:783] {text}"
        for rank in range(count)
        for text in (
            "WorkerProc failed to start.",
            "Traceback (most recent call last):",
            f'  File "{file}/executor/multiproc_executor.py", line 754, in worker_main',
            "    worker = WorkerProc(*args, **kwargs)",
            f'  File "{file}/worker/gpu_worker.py", line 204, in init_device',
            "    self.device = torch.device(rank)",
            said(rank),
        )
    ]
    ends = (
        "(EngineCore pid=500) ERROR 12-01 12:00:01 [core.py:1006] Traceback (most recent call "
        "last):",
        f'(EngineCore pid=500) ERROR 12-01 12:00:01 [core.py:1006]   File "{file}/engine/core.py", '
        "line 1110, in run_engine_core",
        "(EngineCore pid=500) ERROR 12-01 12:00:01 [core.py:1006] Exception: WorkerProc "
        "initialization failed due to an exception in a background process. See stack trace for "
        "root cause.",
        "(APIServer pid=400) Traceback (most recent call last):",
        '(APIServer pid=400)   File "/opt/vllm/bin/vllm", line 10, in <module>',
        "(APIServer pid=400) RuntimeError: Engine core initialization failed. See root cause "
        "above. Failed core proc(s): {}",
    )
    return read("\n".join([*lines, *ends]))


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: CUDA driver error: system not yet initialized",
        "torch.OutOfMemoryError: CUDA out of memory. GPU {rank} has 79.11 GiB.",
        "ValueError: something that nobody has seen yet on rank {rank}",
    ],
)
def test_workers_in_any_order_are_one_failure(count: int, said: str) -> None:
    entries = workers(count, lambda rank: said.format(rank=rank))
    for seed in range(TURNS):
        cause = root_cause(mixed(voices(entries), random.Random(seed)))  # noqa: S311
        assert cause is not None
        assert cause.text in {said.format(rank=rank) for rank in range(count)}
        assert (cause.process, cause.times_seen) == ("Worker", count)
        assert len(cause.pids) == count
        assert any("Engine core init" in one for one in cause.consequences)


def cases() -> list[Path]:
    """The kept journals in which a process of vLLM's says the cause.

    What systemd has said long before is a cause because it was before.
    """
    return [
        path
        for path in sorted(CASES.glob("*/*.log"))
        if (cause := root_cause(read(path.read_text())))
        and cause.is_known
        and cause.process in ("Worker", "EngineCore", "APIServer")
    ]


def test_there_are_such_journals() -> None:
    assert len(cases()) >= 15


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_a_kept_journal_in_any_order_has_the_same_cause(path: Path) -> None:
    entries = read(path.read_text())
    expected = told(root_cause(entries))
    parts = voices(entries)
    for seed in range(TURNS):
        assert told(root_cause(mixed(parts, random.Random(seed)))) == expected  # noqa: S311
