"""Moving, slow, stalled or unknown: samples as a host gives them."""

import pytest

from tasks.startup.stall import Sample, judge

STILL = Sample(0, lines=40, gpu_bytes=70 << 30, cpu_seconds=90.0, disk_bytes=10**9, net_bytes=0)
MINUTE = 60


def still(minutes: int, every: float = 10.0, **changes: float | None) -> list[Sample]:
    """A process that does nothing; a change is added at each sample, None takes a measure away."""
    samples = []
    for number in range(int(minutes * MINUTE / every) + 1):
        values = {
            name: None
            if name in changes and changes[name] is None
            else getattr(STILL, name) + (changes.get(name) or 0) * number
            for name in Sample._fields[1:]
        }
        samples.append(Sample(number * every, **values))
    return samples


def test_quiet_for_longer_than_ever_is_a_stall() -> None:
    judged = judge(still(20), "loading weights", longest_ever=600)

    assert judged.kind == "stalled"
    assert judged.quiet_seconds == 1200
    assert judged.why == (
        "Nothing has moved for 20 min (log, GPU memory, CPU, disk, network); "
        "'loading weights' has never taken longer than 10 min."
    )


def test_quiet_for_no_longer_than_ever_is_nothing() -> None:
    assert judge(still(9), "loading weights", longest_ever=600).kind == "moving"
    assert judge(still(10), "loading weights", longest_ever=600).kind == "moving"


def test_the_floor_protects_a_stage_that_is_always_short() -> None:
    assert judge(still(4), "graphs", longest_ever=3).kind == "moving"
    judged = judge(still(6), "graphs", longest_ever=3)
    assert judged.kind == "stalled"
    assert judged.why.endswith("has never taken longer than 3 s, and it was given 5 min.")
    assert judge(still(6), "graphs", longest_ever=3, floor=600).kind == "moving"


def test_a_first_start_is_never_stalled() -> None:
    judged = judge(still(240), "loading weights", longest_ever=None)

    assert judged.kind == "slow"
    assert "no earlier start tells" in judged.why


@pytest.mark.parametrize(
    "change",
    [
        {"lines": 1},
        {"gpu_bytes": 16 << 20},
        {"gpu_bytes": -(16 << 20)},
        {"disk_bytes": 10**7},
        {"net_bytes": 10**7},
    ],
)
def test_any_of_them_is_movement(change: dict[str, float]) -> None:
    judged = judge(still(60, **change), "loading weights", longest_ever=60)

    assert judged.kind == "moving"
    assert judged.quiet_seconds == 0


def test_gpu_memory_that_grows_slowly_is_movement() -> None:
    assert judge(still(60, gpu_bytes=1 << 20), "loading weights", 60).kind == "moving"


@pytest.mark.parametrize(
    "hum",
    [
        {"cpu_seconds": 0.05},
        {"disk_bytes": 4096},
        {"net_bytes": 2000},
        {"gpu_bytes": 0.0},
        {"cpu_seconds": 0.2, "disk_bytes": 500, "net_bytes": 9000},
    ],
)
def test_a_hum_is_not_movement(hum: dict[str, float]) -> None:
    assert judge(still(20, **hum), "loading weights", longest_ever=60).kind == "stalled"


def test_gpu_memory_that_trembles_is_not_movement() -> None:
    samples = [
        sample._replace(gpu_bytes=(70 << 30) + (number % 2 << 20))
        for number, sample in enumerate(still(20))
    ]

    assert judge(samples, "loading weights", longest_ever=60).kind == "stalled"


def test_a_spinning_process_is_called_so() -> None:
    judged = judge(still(20, cpu_seconds=80.0), "starting engine", longest_ever=60)

    assert judged.kind == "slow"
    assert judged.why.startswith("It spins: 8.0 cores busy for 20 min, and nothing else has moved")
    assert judged.quiet_seconds == 1200


def test_a_compile_within_its_time_is_moving() -> None:
    judged = judge(still(20, cpu_seconds=80.0), "compiling", longest_ever=1500)

    assert judged.kind == "moving"
    assert judged.why == "Only its CPU has been busy for 20 min."


def test_a_spin_on_a_first_start_is_called_so_too() -> None:
    assert judge(still(20, cpu_seconds=80.0), "compiling", None).why.startswith("It spins")
    assert judge(still(4, cpu_seconds=80.0), "compiling", None).kind == "moving"


def test_what_cannot_be_seen_is_not_called_dead() -> None:
    judged = judge(still(20, cpu_seconds=None), "loading weights", longest_ever=60)

    assert judged.kind == "unknown"
    assert "CPU could not be looked at" in judged.why


def test_no_gpu_and_no_network_counter_still_allow_a_stall() -> None:
    samples = still(20, gpu_bytes=None, net_bytes=None)

    judged = judge(samples, "loading weights", longest_ever=60)

    assert judged.kind == "stalled"
    assert "(log, CPU, disk); GPU memory, network could not be looked at" in judged.why


def test_too_little_to_judge() -> None:
    assert judge([], "compiling", 60).kind == "unknown"
    assert judge([STILL], "compiling", 60).kind == "unknown"
    assert judge([Sample(0), Sample(900)], "compiling", 60).kind == "unknown"


def test_movement_long_ago_counts_from_then() -> None:
    samples = [s._replace(lines=40 + (s.time >= 300)) for s in still(20)]

    judged = judge(samples, "loading weights", longest_ever=600)

    assert judged.kind == "stalled"
    assert judged.quiet_seconds == 900


def test_a_process_that_ends_is_not_movement() -> None:
    samples = [s if s.time < 600 else s._replace(cpu_seconds=60.0, disk_bytes=9) for s in still(20)]

    assert judge(samples, "loading weights", longest_ever=60).kind == "stalled"


def test_a_measure_that_fails_at_times_is_passed_over() -> None:
    samples = [s._replace(disk_bytes=None) if s.time % 20 else s for s in still(20)]

    assert judge(samples, "loading weights", longest_ever=60).kind == "stalled"
    loading = [s._replace(disk_bytes=None) if s.time % 20 else s for s in still(20, disk_bytes=1e7)]
    assert judge(loading, "loading weights", longest_ever=60).kind == "moving"
