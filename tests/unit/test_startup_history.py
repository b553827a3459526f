"""What earlier starts say about the present one."""

import pytest

from tasks.startup.history import Estimate, History, Start, comparable, flags_of

FLAGS = ("--tensor-parallel-size=8",)
STAGES = {"launched": 10.0, "imported": 20.0, "loading weights": 600.0, "compiling": 60.0}


def start(
    loading: float = 600.0,
    host: str = "a",
    model: str = "kimi",
    flags: tuple[str, ...] = FLAGS,
    version: str = "1",
    compiling: float = 60.0,
    cache: str | None = "warm",
) -> Start:
    seconds = {**STAGES, "loading weights": loading, "compiling": compiling}
    return Start(host, model, flags, version, seconds, cache)


PRESENT = Start("a", "kimi", FLAGS, "2")


@pytest.mark.parametrize(
    ("starts", "alike", "loading"),
    [
        ([start(1, version="2"), start(2)], "same host, model, flags and version", 1),
        ([start(2), start(3, flags=())], "same host, model and flags", 2),
        ([start(3, flags=()), start(4, host="b")], "same host and model", 3),
        ([start(4, host="b"), start(5, host="b", flags=())], "same model and flags", 4),
        ([start(5, host="b", flags=())], "same model", 5),
        ([start(6, model="llama")], "", None),
        ([], "", None),
    ],
)
def test_the_most_alike_are_chosen(starts: list[Start], alike: str, loading: float | None) -> None:
    history = comparable(reversed(starts), PRESENT)

    assert history.alike == alike
    assert history.expected("loading weights") == loading


def test_the_newest_count() -> None:
    history = comparable([start(n) for n in range(1, 40)], PRESENT, newest=3)

    assert history.expected("loading weights") == 2
    assert history.longest("loading weights") == 3


def test_usual_and_longest() -> None:
    history = comparable([start(500), start(2000), start(600)], PRESENT)

    assert history.expected("loading weights") == 600
    assert history.longest("loading weights") == 2000
    assert history.expected("warm-up") is None
    assert history.longest("warm-up") is None


def test_a_cold_compile_is_not_compared_with_warm_ones() -> None:
    history = comparable(
        [start(compiling=6), start(compiling=8), start(compiling=300, cache="cold")], PRESENT
    )

    assert history.expected("compiling", "warm") == 7
    assert history.expected("compiling", "cold") == 300
    assert history.longest("compiling") == 300
    cold = history.eta("compiling", 100, cache="cold")
    assert cold == Estimate(200, False, "3 earlier starts of the same host, model and flags")
    only_warm = comparable([start(compiling=6)], PRESENT)
    assert only_warm.eta("compiling", 1, cache="cold") is None
    assert only_warm.eta("imported", 5, cache="cold") is not None


def test_time_left_by_earlier_starts() -> None:
    history = comparable([start(600)], PRESENT)
    basis = "one earlier start of the same host, model and flags"

    assert history.eta("launched", 4) == Estimate(6 + 20 + 600 + 60, False, basis)
    assert history.eta("loading weights", 100) == Estimate(500 + 60, False, basis)
    # three times as fast as usual: its own pace counts
    assert history.eta("loading weights", 100, 50.0) == Estimate(100 + 60, False, basis)
    # too little of a bar to go by
    assert history.eta("loading weights", 100, 1.0) == Estimate(500 + 60, False, basis)
    late = history.eta("loading weights", 700)
    assert late == Estimate(60, False, basis + "; loading weights takes longer than usual")


def test_without_history_nothing_is_guessed() -> None:
    nothing = History((), "")

    assert nothing.eta("loading weights", 100) is None
    assert nothing.eta("loading weights", 100, 2.0) is None
    assert nothing.eta("loading", 100, 50.0) == Estimate(
        100, True, "loading alone, by its own pace; no earlier start"
    )
    partial = nothing.eta("loading weights", 100, 25.0)
    assert partial is not None
    assert (partial.seconds, partial.partial) == (300, True)


def test_a_stage_that_never_was_is_not_guessed() -> None:
    history = comparable([start()], PRESENT)

    assert history.eta("warm-up", 10) is None
    assert history.eta("loading", 10) is None


def test_flags_have_one_form() -> None:
    argv = ["/opt/vllm/bin/vllm", "serve", "/m", "--max_model_len", "4096", "--enforce-eager"]

    assert flags_of(argv) == ("--enforce-eager", "--max-model-len=4096")
    assert flags_of(["--enforce-eager", "--max-model-len=4096"]) == flags_of(argv)
    assert flags_of(["--lora-modules", "a=b", "c=d", "-tp", "8"]) == (
        "--lora-modules=a=b c=d",
        "-tp=8",
    )
    assert flags_of(["--seed", "-1"]) == ("--seed=-1",)


def test_flags_hold_no_key_and_no_address() -> None:
    argv = ["--api-key", "sk-secret", "--port=8000", "--host", "0.0.0.0", "--api_key=sk-other"]

    assert flags_of(argv) == ()
