"""One host for all tests of the supervisor."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.host import Host
from blocks.supervisor_client import Supervisor
from deployments.sandbox import hosts
from tests.integration.supervisor.bench import NAME, Bench

PROBE = Path(__file__).with_name("probe_service.py")


@pytest.fixture(scope="session")
def host() -> Iterator[Host]:
    hosts.remove(NAME)
    up = hosts.up(NAME)
    block = Host(address=up.address, key_file=str(up.key_file), known_hosts=str(up.known_hosts))
    block.put(PROBE.read_bytes(), "/opt/probe.py")
    Supervisor(block).install()
    yield block
    block.close()
    hosts.remove(NAME)


@pytest.fixture
def bench(host: Host, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(host)
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())
    made.begin(f"{name[:60].strip('-')}-{time.time_ns()}")
    yield made
    made.end()
