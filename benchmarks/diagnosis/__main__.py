"""A large journal, its cause first, in the middle and last: how long, against a bare loop?

A bare loop is `for line in file` for text, and `json.loads` of every line for JSON, in the same run
on the same file, each in a process of its own. Seconds are CPU time, which others on the machine
do not lengthen; memory is the largest that the process had.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.diagnosis_cases import CASES

TIMES = 3.0
MEGABYTES = 300
RESULTS = Path(__file__).with_name("results.json")
_CAUSE = CASES / "reported" / "flashinfer-cubin-skew.log"
_ROOT = "does not match flashinfer version"
_DIAGNOSE = """
import json, resource, sys, time
from tasks.diagnosis.finding import diagnose
from tasks.diagnosis.journal import read_stream
from tasks.diagnosis.symptoms import Death, Facts
began = time.process_time()
with open(sys.argv[1], "rb") as stream:
    entries, count = read_stream(stream)
found = diagnose(entries, Facts(), Death(kind="not-asked"), lines_read=count)
print(json.dumps({
    "seconds": time.process_time() - began,
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "said": found.said,
    "line": found.root_cause.number if found.root_cause else None,
}))
"""
_BARE = {
    "text": "for line in open(sys.argv[1], errors='replace'): pass",
    "json": "for line in open(sys.argv[1], errors='replace'): json.loads(line)",
}


def main() -> None:
    """Measure, keep the figures, and leave with 1 where one is not good enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="how large a journal")
    size = parser.parse_args().megabytes * 1_000_000
    rows = [
        _measured(shape, place, size)
        for shape in ("text", "json")
        for place in ("first", "middle", "last")
    ]
    good = all(row["right"] and row["times"] <= TIMES for row in rows)
    good = good and all(row["megabytes"] < MEGABYTES for row in rows)
    RESULTS.write_text(json.dumps({"bytes": size, "rows": rows}, indent=1) + "\n")
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
    raise SystemExit(0 if good else 1)


def _measured(shape: str, place: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        planted = _write(path, shape, place, size)
        bare_source = f"import json, sys, time\nbegan = time.process_time()\n{_BARE[shape]}\n"
        bare = min(
            float(_run(f"{bare_source}print(time.process_time() - began)", path)) for _ in (1, 2)
        )
        runs = [json.loads(_run(_DIAGNOSE, path)) for _ in (1, 2)]
    best = min(runs, key=lambda run: float(run["seconds"]))
    return {
        "shape": shape,
        "cause": place,
        "bare_seconds": round(bare, 2),
        "seconds": round(best["seconds"], 2),
        "times": round(best["seconds"] / bare, 2),
        "megabytes": round(best["megabytes"]),
        "right": _ROOT in best["said"] and best["line"] == planted,
    }


def _run(source: str, path: Path) -> str:
    argv = [sys.executable, "-c", source, str(path)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def _write(path: Path, shape: str, place: str, size: int) -> int:
    """Write a journal, and return the line of the planted cause."""
    cause = _CAUSE.read_text().splitlines()
    root = next(number for number, line in enumerate(cause) if _ROOT in line)
    written = count = 0
    planted: int | None = None
    where = {"first": 0, "middle": size // 2, "last": size - 200_000}[place]
    with path.open("w") as out:
        for line in _noise():
            if planted is None and written >= where:
                planted = count + root + 1
                out.writelines(_shaped(one, shape) for one in cause)
                count += len(cause)
            written += out.write(_shaped(line, shape))
            count += 1
            if written >= size:
                break
    return planted or 0


def _noise() -> Iterator[str]:
    """Yield what a service writes while it serves, without an end: no two lines are the same."""
    number = 0
    while True:
        number += 1
        stamp = f"2026-11-20T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}+0000"
        head = f"{stamp} gpu01 vllm[40112]: (APIServer pid=40112)"
        yield (
            f'{head} INFO:     10.0.{number % 250}.{number % 199}:{number % 60000} - "POST '
            '/v1/chat/completions HTTP/1.1" 200 OK'
        )
        if number % 4 == 0:
            yield (
                f"{head} INFO 11-20 10:00:00 [loggers.py:257] Engine 000: Avg prompt throughput: "
                f"{number % 5000}.4 tokens/s, Avg generation throughput: {number % 900}.1 "
                f"tokens/s, Running: {number % 60} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%"
            )
        if number % 3 == 0:
            yield (
                f"{head} INFO 11-20 10:00:00 [logger.py:42] Received request chatcmpl-"
                f"{number * 2654435761 % (1 << 64):016x}: params: SamplingParams(n=1, seed=None)"
            )
        if number % 500 == 0:
            yield (
                f"{head} WARNING 11-20 10:00:00 [sampling.py:{number % 7}] Default sampling "
                "parameters have been overridden by the model's generation config."
            )


def _shaped(line: str, shape: str) -> str:
    if shape == "text":
        return line + "\n"
    stamp, host, who, message = line.split(" ", 3)
    return (
        json.dumps(
            {
                "__CURSOR": f"s=0f3a;i={len(message):x};b=9c1d;m=1f;t=63f;x=7a",
                "__REALTIME_TIMESTAMP": "1795169494000000",
                "_BOOT_ID": "9c1d0a7be1f24c2fb8a1c7d2e4f5a6b7",
                "_HOSTNAME": host,
                "PRIORITY": "6",
                "SYSLOG_IDENTIFIER": who.partition("[")[0].rstrip(":"),
                "_PID": who.partition("[")[2].rstrip("]:") or "1",
                "_SYSTEMD_UNIT": "vllm.service",
                "_SOURCE_REALTIME_TIMESTAMP": stamp,
                "MESSAGE": message,
            }
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
