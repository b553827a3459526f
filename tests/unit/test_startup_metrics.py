"""Prometheus text, what vanished in it, and the heartbeat."""

import math

import pytest

from tasks.startup.metrics import Metrics, Value, heartbeat, parse, vanished

V1 = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 480.0
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7636e+09
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 900.0
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="m"} 70.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="m"} 80.0
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 80.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 1.0
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 12.0
"""
V0 = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 1.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 0.0
# TYPE vllm:num_requests_swapped gauge
vllm:num_requests_swapped{model_name="m"} 0.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="m"} 0.1
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="m"} 10.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m"} 20.0
# TYPE vllm:time_per_output_token_seconds histogram
vllm:time_per_output_token_seconds_bucket{le="0.01",model_name="m"} 20.0
vllm:time_per_output_token_seconds_sum{model_name="m"} 0.1
vllm:time_per_output_token_seconds_count{model_name="m"} 20.0
"""


def test_names_and_values() -> None:
    read = parse(V1)

    assert Value("vllm:kv_cache_usage_perc", (("engine", "0"), ("model_name", "m")), 0.25) in (
        read.samples
    )
    assert read.names() == {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:generation_tokens_total",
        "vllm:iteration_tokens_total",
        "vllm:request_success_total",
        "python_gc_objects_collected_total",
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("up 1", Value("up", (), 1.0)),
        ("up 1 1395066363000", Value("up", (), 1.0)),
        ("up{} 1", Value("up", (), 1.0)),
        ('a{b="x y",c="}"} 2e3', Value("a", (("b", "x y"), ("c", "}")), 2000.0)),
        (
            r'a{b="C:\\D",c="say \"x\"",d="l\n2"} 1',
            Value("a", (("b", "C:\\D"), ("c", 'say "x"'), ("d", "l\n2")), 1.0),
        ),
        ('a{b="1", } 3', Value("a", (("b", "1"),), 3.0)),
        ("a +Inf", Value("a", (), math.inf)),
        ('a_bucket{le="1"} 4 # {trace_id="x"} 0.5 1.0', Value("a_bucket", (("le", "1"),), 4.0)),
    ],
)
def test_shapes_of_a_sample(line: str, expected: Value) -> None:
    assert parse(line).samples == (expected,)


@pytest.mark.parametrize(
    "text", ["", "# EOF", "<html>", "a", "a{", 'a{b="1} 2', "a one", "1a 2", "a" * 20_000 + " 1"]
)
def test_what_is_no_sample_is_passed_over(text: str) -> None:
    assert parse(text).samples == ()


def test_nan_is_a_value() -> None:
    assert math.isnan(parse("a NaN").samples[0].value)


def gone(before: Metrics, after: Metrics) -> list[str]:
    return vanished(before.names(), after.names())


def test_nothing_vanished() -> None:
    assert gone(parse(V1), parse(V1)) == []
    assert gone(Metrics((), {}), parse(V1)) == []


def test_what_vanished_between_versions() -> None:
    assert gone(parse(V0), parse(V1)) == [
        "vllm:gpu_cache_usage_perc (now vllm:kv_cache_usage_perc)",
        "vllm:num_requests_swapped",
        "vllm:prompt_tokens_total",
        "vllm:time_per_output_token_seconds",
    ]


def test_a_known_rename_is_said() -> None:
    after = parse(V0.replace("time_per_output_token", "inter_token_latency"))

    assert gone(parse(V0), after) == [
        "vllm:time_per_output_token_seconds (now vllm:inter_token_latency_seconds)"
    ]


def test_only_vllm_is_looked_at() -> None:
    assert gone(parse("python_info 1\nvllm:a 1"), parse("x 1")) == ["vllm:a"]


def test_a_counter_declared_in_another_way_is_the_same() -> None:
    prometheus = "# TYPE vllm:a_total counter\nvllm:a_total 1"
    openmetrics = "# TYPE vllm:a counter\nvllm:a_total 1\n# EOF"

    assert gone(parse(prometheus), parse(openmetrics)) == []
    assert gone(parse(openmetrics), parse(prometheus)) == []
    silent = "# TYPE vllm:a counter\n# EOF"
    assert gone(parse(prometheus), parse(silent)) == []
    assert gone(parse(silent), parse(prometheus)) == []


def test_a_new_suffix_kills_an_alert_and_is_said() -> None:
    bare, total = "# TYPE vllm:a counter\nvllm:a 1", "# TYPE vllm:a_total counter\nvllm:a_total 1"

    assert gone(parse(bare), parse(total)) == ["vllm:a (now vllm:a_total)"]
    assert gone(parse(total), parse(bare)) == ["vllm:a_total (now vllm:a)"]


def test_a_created_stamp_is_no_metric() -> None:
    assert gone(parse(V1), parse(V1.replace("vllm:generation_tokens_created", "x"))) == []


def test_a_metric_without_a_sample_is_there() -> None:
    assert gone(parse("vllm:a 1"), parse("# TYPE vllm:a gauge")) == []


def with_(text: str, name: str, value: float) -> Metrics:
    lines = []
    for line in text.splitlines():
        if line.startswith(name + "{"):
            line = line.rsplit(" ", 1)[0] + f" {value}"
        lines.append(line)
    return parse("\n".join(lines))


IDLE = V1.replace('running{engine="0",model_name="m"} 2.0', 'running{engine="0",model_name="m"} 0')


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (V1, "vllm:iteration_tokens_total_count", 81),
        (V1, "vllm:generation_tokens_total", 481),
        (V1, "vllm:request_success_total", 9),
        (V0, "vllm:prompt_tokens_total", 11),
        (V0, "vllm:generation_tokens_total", 21),
        (IDLE, "vllm:generation_tokens_total", 481),
    ],
)
def test_any_counter_that_moves_is_work(text: str, name: str, value: float) -> None:
    assert heartbeat(parse(text), with_(text, name, value)) == "working"


def test_one_of_several_series_that_moves_is_work() -> None:
    after = parse(V1.replace('"stop",model_name="m"} 3.0', '"stop",model_name="m"} 4.0'))

    assert heartbeat(parse(V1), after) == "working"


@pytest.mark.parametrize("text", [V0, V1])
def test_requests_and_no_work_is_a_hang(text: str) -> None:
    assert heartbeat(parse(text), parse(text)) == "hung"


def test_waiting_requests_and_no_work_is_a_hang() -> None:
    waiting = with_(IDLE, "vllm:num_requests_waiting", 4)

    assert heartbeat(waiting, waiting) == "hung"


def test_no_requests_and_no_work_is_idle_unless_it_was_asked() -> None:
    assert heartbeat(parse(IDLE), parse(IDLE)) == "idle"
    assert heartbeat(parse(IDLE), parse(IDLE), asked=True) == "hung"
    assert heartbeat(parse(IDLE), with_(IDLE, "vllm:generation_tokens_total", 481), True) == (
        "working"
    )


def test_a_busy_engine_does_not_hide_a_hung_one() -> None:
    other = V1.replace('engine="0"', 'engine="1"')
    before, after = parse(V1 + other), parse(V1.replace("} 480.0", "} 490.0") + other)

    assert heartbeat(before, after) == "hung"


def test_a_busy_engine_beside_an_idle_one_is_work_though_asked() -> None:
    other = IDLE.replace('engine="0"', 'engine="1"')
    before, after = parse(V1 + other), parse(V1.replace("} 480.0", "} 490.0") + other)

    assert heartbeat(before, after, asked=True) == "working"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        (V1, ""),
        ("", V1),
        ("up 1", "up 1"),
        (V1, V1.replace("} 480.0", "} 5.0")),
        (V1, V1.replace("num_requests", "requests")),
        (V1, V1.replace('engine="0"', 'engine="7"')),
    ],
)
def test_what_cannot_be_told_is_unknown(before: str, after: str) -> None:
    assert heartbeat(parse(before), parse(after)) == "unknown"
