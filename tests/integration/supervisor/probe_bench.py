#!/usr/bin/python3
"""A small `vllm bench serve` for the supervisor's tests; no vLLM, but it does send and measure.

It says what it should not: its key, and colours.
"""

import http.client
import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit


def given(name: str) -> str:
    """Return the value of an option."""
    return sys.argv[sys.argv.index(name) + 1]


where, total, failed = urlsplit(given("--base-url")), int(given("--num-prompts")), 0
key = os.environ.get("OPENAI_API_KEY", "")
print(f"\x1b[31mNamespace(openai_api_key='{key}')\x1b[0m and again {key}", flush=True)
for number in range(total):
    sys.stderr.write(f"\r{number / total:4.0%}|##  | {number}/{total} [00:01<00:02,  9.5it/s]")
    sys.stderr.flush()
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=600)
    body = json.dumps({"model": given("--model"), "prompt": "a", "max_tokens": 9})
    try:
        connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {key}"})
        failed += connection.getresponse().status != 200
    except OSError:
        failed += 1
result = {"completed": total - failed, "failed": failed, "output_throughput": 1.5, "said": key}
Path(given("--result-filename")).write_text(json.dumps(result))
