"""Stand-in for tests; not the real vLLM: `vllm bench serve`, which really sends and measures."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

METRICS = {
    "ttft": "Time to First Token",
    "tpot": "Time per Output Token (excl. 1st token)",
    "itl": "Inter-token Latency",
    "e2el": "End-to-end Latency",
}


@dataclass
class Output:
    """What one request measured, in seconds."""

    ttft: float = 0.0
    e2el: float = 0.0
    itl: list[float] = field(default_factory=list)
    tokens: int = 0
    error: str | None = None

    @property
    def tpot(self) -> float:
        """Seconds for each token after the first."""
        return (self.e2el - self.ttft) / (self.tokens - 1) if self.tokens > 1 else 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the real command."""
    parser.add_argument("--backend", default="openai")
    parser.add_argument("--base-url")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--endpoint", default="/v1/completions")
    parser.add_argument("--model")
    parser.add_argument("--served-model-name")
    parser.add_argument("--tokenizer")
    parser.add_argument("--dataset-name", default="random")
    parser.add_argument("--num-prompts", type=int, default=1000)
    parser.add_argument("--random-input-len", "--input-len", type=int, default=1024)
    parser.add_argument("--random-output-len", "--output-len", type=int, default=128)
    parser.add_argument("--max-concurrency", type=int)
    parser.add_argument("--request-rate", type=float, default=float("inf"))
    parser.add_argument("--num-warmups", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--ignore-eos", action="store_true")
    parser.add_argument("--disable-tqdm", action="store_true")
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--percentile-metrics", default="ttft,tpot,itl")
    parser.add_argument("--metric-percentiles", default="99")
    parser.add_argument("--save-result", action="store_true")
    parser.add_argument("--save-detailed", action="store_true")
    parser.add_argument("--result-dir")
    parser.add_argument("--result-filename")
    parser.add_argument("--label")


def cmd(args: argparse.Namespace) -> None:
    """Send the prompts, print the table, save the figures."""
    if args.backend == "openai-chat" and args.endpoint == "/v1/completions":
        args.endpoint = "/v1/chat/completions"
    random.seed(args.seed)
    began = time.perf_counter()
    with ThreadPoolExecutor(min(args.max_concurrency or args.num_prompts, 256)) as pool:
        outputs = list(pool.map(lambda i: send(args, prompt(args, i)), range(args.num_prompts)))
    result = summary(args, outputs, time.perf_counter() - began)
    show(args, result)
    if args.save_result:
        name = args.result_filename or time.strftime("standin-%Y%m%d-%H%M%S.json")
        Path(args.result_dir or ".", name).write_text(json.dumps(result) + "\n")


def prompt(args: argparse.Namespace, i: int) -> str:
    """Return as many words as tokens were asked for."""
    return " ".join(f"w{(args.seed + i * 31 + j) % 997}" for j in range(args.random_input_len))


def send(args: argparse.Namespace, text: str) -> Output:
    """Send one streaming request; a failed one says why."""
    where = urlsplit(args.base_url or f"http://{args.host}:{args.port}")
    output = Output()
    try:
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=600)
        began = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        connection.request("POST", args.endpoint, json.dumps(body(args, text)), headers)
        response = connection.getresponse()
        if response.status != 200:
            output.error = f"{response.status} {response.reason}"
        else:
            read(response, began, output)
        connection.close()
    except (OSError, http.client.HTTPException) as error:
        output.error = f"{type(error).__name__}: {error}"
    return output


def body(args: argparse.Namespace, text: str) -> dict[str, Any]:
    """Return the request's document."""
    chat = args.endpoint.endswith("/chat/completions")
    content: dict[str, Any] = (
        {"messages": [{"role": "user", "content": text}]} if chat else {"prompt": text}
    )
    return {
        **content,
        "model": args.served_model_name or args.model,
        "max_tokens": args.random_output_len,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": args.ignore_eos,
        **({} if args.temperature is None else {"temperature": args.temperature}),
    }


def read(response: http.client.HTTPResponse, began: float, output: Output) -> None:
    """Measure the chunks of a stream as they come."""
    last = began
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        now = time.perf_counter()
        document = json.loads(line[6:])
        if document["choices"]:
            if output.ttft == 0.0:
                output.ttft = now - began
            else:
                output.itl.append(now - last)
            last, output.e2el = now, now - began
        if document.get("usage"):
            output.tokens = document["usage"]["completion_tokens"]
    if output.tokens == 0:
        output.error = "the stream ended without a usage"


def summary(args: argparse.Namespace, outputs: list[Output], seconds: float) -> dict[str, Any]:
    """Return the figures under the real command's names."""
    good = [output for output in outputs if output.error is None]
    read_tokens, made = len(good) * args.random_input_len, sum(one.tokens for one in good)
    result: dict[str, Any] = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": args.backend,
        "backend": args.backend,
        "label": args.label,
        "model_id": args.model,
        "tokenizer_id": args.tokenizer or args.model,
        "num_prompts": args.num_prompts,
        "request_rate": "inf" if args.request_rate == float("inf") else args.request_rate,
        "burstiness": 1.0,
        "max_concurrency": args.max_concurrency,
        "duration": seconds,
        "completed": len(good),
        "failed": len(outputs) - len(good),
        "total_input_tokens": read_tokens,
        "total_output_tokens": made,
        "request_throughput": len(good) / seconds,
        "request_goodput": None,
        "output_throughput": made / seconds,
        "total_token_throughput": (read_tokens + made) / seconds,
    }
    for metric in args.percentile_metrics.split(","):
        result |= figures(metric, good, args.metric_percentiles)
    if args.save_detailed:
        result |= {"errors": [output.error or "" for output in outputs]}
    return result


def figures(metric: str, outputs: list[Output], percentiles: str) -> dict[str, float]:
    """Return mean, median, deviation and percentiles of one metric, in milliseconds."""
    if metric == "itl":
        values = [gap for output in outputs for gap in output.itl]
    else:
        values = [getattr(output, metric) for output in outputs]
    values = sorted(1000 * value for value in values) or [0.0]
    found = {
        f"mean_{metric}_ms": statistics.fmean(values),
        f"median_{metric}_ms": statistics.median(values),
        f"std_{metric}_ms": statistics.pstdev(values),
    }
    for word in percentiles.split(","):
        wanted = float(word)
        name = str(int(wanted)) if wanted == int(wanted) else str(wanted)
        found[f"p{name}_{metric}_ms"] = percentile(values, wanted)
    return found


def percentile(values: list[float], wanted: float) -> float:
    """Return a percentile of sorted values, between neighbours as numpy does it."""
    place = (len(values) - 1) * wanted / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def show(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Print the table."""
    if result["completed"] == 0:
        print("WARNING: All requests failed. This is likely due to a misconfiguration.")
    rows = {
        "Successful requests:": result["completed"],
        "Failed requests:": result["failed"],
        "Benchmark duration (s):": result["duration"],
        "Total input tokens:": result["total_input_tokens"],
        "Total generated tokens:": result["total_output_tokens"],
        "Request throughput (req/s):": result["request_throughput"],
        "Output token throughput (tok/s):": result["output_throughput"],
        "Total token throughput (tok/s):": result["total_token_throughput"],
    }
    print(f"{' Serving Benchmark Result ':=^50}")
    for name, value in rows.items():
        print(row(name, value))
    for metric in args.percentile_metrics.split(","):
        print(f"{METRICS.get(metric, metric):-^50}")
        for name, value in result.items():
            if name.endswith(f"_{metric}_ms") and not name.startswith("std_"):
                word = name.split("_", maxsplit=1)[0].capitalize()
                print(row(f"{word} {metric.upper()} (ms):", value))
    print("=" * 50)


def row(name: str, value: float) -> str:
    """Return one row of the table."""
    return f"{name:<40} {value:<10.2f}" if isinstance(value, float) else f"{name:<40} {value:<10}"
