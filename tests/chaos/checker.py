"""Looks at a host after whatever happened, and knows nothing of how it came to be so.

The one question: is the service on the old release or on the new one, healthy, and does the host's
own record say which?
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.integration import on_host
from tests.integration.on_host import REMEMBERED
from tests.integration.scenes import Scene


def violations(scene: Scene) -> list[str]:
    """Return a sentence for everything that is not as it has to be; none when all is well."""
    return [
        *_not_serving(scene),
        *_not_recorded(scene),
        *_not_as_installed(scene),
        *_done_twice(scene),
        *_left_over(scene),
    ]


def _not_serving(scene: Scene) -> Iterator[str]:
    versions = {scene.story.nightly.version, scene.story.old.version}
    try:
        found = on_host.http(scene.host, f"{scene.url}/version")["version"]
    except AssertionError:
        yield "nobody answers /version"
        return
    if found not in versions:
        yield f"version {found} answers"
    installed = on_host.packages(scene.host, scene.story.environment)["vllm"]
    if installed != found:
        yield f"version {found} answers, and {installed} is installed"


def _not_recorded(scene: Scene) -> Iterator[str]:
    environment = Path(scene.story.environment)
    inodes = on_host.inodes(scene.host, f"{environment}", f"{environment}.*")
    at_path = inodes[str(environment)]
    known = _ledger(scene)
    live = [inode for inode, one in known.items() if one["state"] == "live"]
    if known and live != [at_path]:
        yield f"live is recorded as {live}, and {at_path} lies at {environment}"
    for path, inode in inodes.items():
        state = known.get(inode, {}).get("state")
        if path != str(environment) and state not in ("previous", "rejected"):
            yield f"{path} is left over ({state})"
    record = _last_record(scene)
    installed = on_host.packages(scene.host, str(environment))["vllm"]
    if record is None:
        if installed == scene.story.nightly.version:
            yield "the new release is live, and no record says so"
        return
    expected = record["after"] if record["result"].startswith("live") else record["before"]
    if record["result"] == "down" or installed != expected:
        yield f"the record says {record['result']!r}, and {installed} is installed"
    if record.get("unplanned"):
        yield f"the record says that {record['unplanned']} are not as planned"


def _not_as_installed(scene: Scene) -> Iterator[str]:
    for file in on_host.differing(scene.host, scene.story.environment):
        yield f"{file} is not as its RECORD says"


def _done_twice(scene: Scene) -> Iterator[str]:
    log = on_host.operations(scene.host)
    count = Counter((line.operation, line.event) for line in log)
    ended: set[str] = set()
    for line in log:
        if line.event == "started" and line.operation in ended:
            yield f"{line.operation} was started again after it had ended"
        if line.event in ("finished", "failed"):
            ended.add(line.operation)
    for name in {line.operation for line in log}:
        if count[name, "started"] > 1 + count[name, "interrupted"]:
            yield f"{name} was started {count[name, 'started']} times"


def _left_over(scene: Scene) -> Iterator[str]:
    host, environment = scene.host, scene.story.environment
    for path in (
        *on_host.locks(host),
        *on_host.matching(host, f"{REMEMBERED}/open/*.json"),
        *on_host.matching(host, "/etc/systemd/system/redeploy-*"),
        *on_host.matching(host, "/etc/systemd/system/*.wants/redeploy-*"),
    ):
        yield f"{path} is left over"
    for unit in on_host.units(host, "redeploy-*"):
        yield f"the unit {unit} is left over"
    for line in on_host.read(host, "/proc/mounts").splitlines():
        if line.split()[1].startswith(environment):
            yield f"a mount is left over: {line}"
    for process in on_host.processes(host):
        if "redeploy-supervisor" in process or "/uv pip" in process:
            yield f"a process is left over: {process}"


def _ledger(scene: Scene) -> dict[str, Any]:
    for path in on_host.matching(scene.host, f"{REMEMBERED}/environments/*.json"):
        document = json.loads(on_host.read(scene.host, path))
        if document["environment"] == scene.story.environment:
            return dict(document["folders"])
    return {}


def _last_record(scene: Scene) -> dict[str, Any] | None:
    paths = on_host.matching(scene.host, f"{REMEMBERED}/releases/*.json")
    records = [json.loads(on_host.read(scene.host, path)) for path in paths]
    return max(records, key=lambda one: str(one["time"]), default=None)
