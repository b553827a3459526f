"""Records of redeploys as a host keeps them, for tests that judge by them."""

from typing import Any

from tasks.packages.diff import diff
from tasks.packages.versions import commit_delta
from tasks.release import ReleaseRecord

OLD, NEW = "0.16.0rc2.dev313+g662205d34", "0.16.0rc2.dev344+gea5f903f8"


def record(**changes: Any) -> ReleaseRecord:
    """Return the record of a nightly that was rolled back, but for the changes."""
    given: dict[str, Any] = {
        **dict.fromkeys(("id", "service", "host", "unit", "environment", "distribution"), "x"),
        **dict.fromkeys(("strategy", "skew", "who", "why"), "x"),
        "time": "2026-12-02T03:10:00+00:00",
        "target": "nightly",
        "result": "rolled back",
        "verdict": "Rolled back; serving. It crashed.",
        "before": OLD,
        "after": NEW,
        "delta": commit_delta(OLD, NEW),
        "changes": diff({}, {}, []),
        "locked": 1,
        "packages": 1,
    }
    return ReleaseRecord.model_validate({**given, **changes})
