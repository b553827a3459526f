"""Stand-in for tests; not the real vLLM: the failures it can be told to have.

A failure is named `<kind>@<stage>` in the environment variable `VLLM_STANDIN_FAIL`, or lies as
`{"kind", "stage", "version"?, "starts"?, "after_seconds"?}` in `/etc/vllm-standin.json`. With
`version` only that version fails; with `starts` only the first so many starts do. What goes wrong
in `serving` does so `after_seconds`: 1 where something ends or hangs, 0 where it goes on serving.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

STAGES = ("import", "engine", "loading", "profile", "listening", "serving")

FAILURES: tuple[tuple[str, str], ...] = (
    *(("crash", stage) for stage in STAGES),
    *(("hang", stage) for stage in STAGES),
    *(("exit0", stage) for stage in STAGES),
    ("oom", "loading"),
    ("oom", "profile"),
    ("port-in-use", "import"),
    ("sigkill", "engine"),
    ("sigkill", "loading"),
    ("sigkill", "profile"),
    ("sigkill", "serving"),
)
"""Every kind of failure with every stage that it can happen in."""

WRONG_ANSWERS: tuple[tuple[str, str], ...] = (
    ("garbage", "serving"),
    ("broken", "serving"),
    ("wrong-version", "serving"),
    ("lies", "serving"),
    ("dead", "serving"),
)
"""What is wrong with a service that goes on serving, with `/health` answering 200.

`garbage`: "!" for ever, embeddings and scores that are no numbers; `broken`: broken characters,
embeddings and scores that are all the same; `wrong-version`: `/version` names another; `lies`: no
request is ever answered; `dead`: every request is answered with 500.
"""

RECORDED = {
    ("crash", "import"): "import-error.log",
    ("crash", "engine"): "fabric-manager-802.log",
    ("crash", "loading"): "shard-truncated.log",
    ("crash", "profile"): "kvspace200.log",
    ("oom", "loading"): "oom-sampler-warmup.log",
    ("oom", "profile"): "oom-sampler-warmup.log",
}
"""Failures that are replayed; the others really happen to the stand-in's own processes."""


@dataclass(frozen=True)
class Failure:
    """A failure that this start is going to have."""

    kind: str
    stage: str
    after_seconds: float

    @property
    def recording(self) -> str | None:
        """The log that is replayed for it, if one is."""
        return RECORDED.get((self.kind, self.stage))


def planned(version: str) -> Failure | None:
    """Return the failure that was asked for, where it is meant for this version and start."""
    asked = _asked()
    if not asked or asked.get("version", version) != version:
        return None
    named = (asked["kind"], asked["stage"])
    if named not in FAILURES + WRONG_ANSWERS:
        raise SystemExit(f"vllm stand-in: no such failure: {asked['kind']}@{asked['stage']}")
    if "starts" in asked and _counted(json.dumps(asked, sort_keys=True)) > int(asked["starts"]):
        return None
    after = 0.0 if named in WRONG_ANSWERS else 1.0
    return Failure(*named, float(asked.get("after_seconds", after)))


def _asked() -> dict[str, str]:
    if named := os.environ.get("VLLM_STANDIN_FAIL"):
        kind, _, stage = named.partition("@")
        return {"kind": kind, "stage": stage}
    try:
        path = os.environ.get("VLLM_STANDIN_CONFIG", "/etc/vllm-standin.json")
        return dict(json.loads(Path(path).read_text()))
    except FileNotFoundError:
        return {}


def _counted(key: str) -> int:
    """Count this start and return how many there were."""
    path = Path(os.environ.get("VLLM_STANDIN_COUNTER", "/var/tmp/vllm-standin-starts.json"))  # noqa: S108
    counts = json.loads(path.read_text()) if path.exists() else {}
    counts[key] = counts.get(key, 0) + 1
    path.write_text(json.dumps(counts))
    return int(counts[key])
