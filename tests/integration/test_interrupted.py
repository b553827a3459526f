"""A run that is cut off says how to go on; a host that hangs needs no sandbox."""

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.polling import until
from tests.integration.serving import REDEPLOY, environment, serving

pytestmark = pytest.mark.timeout(180)

CONFIG = """
[hosts.a]
address = "127.0.0.1"
port = {port}
connect_timeout_seconds = 100
[services.kimi]
host = "a"
unit = "vllm"
environment = "/opt/env"
[services.llama]
host = "a"
unit = "llama"
environment = "/opt/llama"
api_key = {{ env = "KEY_THAT_IS_NOT_SET" }}
"""


@contextmanager
def hanging_host(folder: Path) -> Iterator[tuple[Path, socket.socket]]:
    """Give a configuration whose host takes a connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(90)
        config = folder / "redeploy.toml"
        config.write_text(CONFIG.format(port=listening.getsockname()[1]))
        yield config, listening


def started(folder: Path, config: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [REDEPLOY, *words, "--config", config],
        env=environment(folder / "prefect", COLUMNS="400"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


ID = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize("more", [(), ("--resume", ID)])
def test_a_run_that_is_ended_says_its_id(tmp_path: Path, more: tuple[str, ...]) -> None:
    with hanging_host(tmp_path) as (config, host):
        process = started(tmp_path, config, "run", "kimi", *more)
        host.accept()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    resumed = re.search(r"redeploy resume ([0-9a-f-]{36})$", said.strip())
    assert resumed, said
    assert not more or resumed[1] == ID


def test_a_run_that_is_ended_before_it_begins_says_so(tmp_path: Path) -> None:
    with hanging_host(tmp_path) as (config, _):
        process = started(tmp_path, config, "run", "kimi")
        maps = Path(f"/proc/{process.pid}/maps")
        until(lambda: "orjson" in maps.read_text(), "Prefect is being imported", 30, pause=0.01)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "before anything was done" in said


def test_a_server_that_is_ended_names_what_it_cuts_off(tmp_path: Path) -> None:
    with hanging_host(tmp_path) as (config, host), serving(config, tmp_path) as server:
        path = f"deployments/{server.api.deployment()['id']}/create_flow_run"
        bodies: list[dict[str, object]] = [{}, {"parameters": {}}, {"parameters": {"request": {}}}]
        for forgotten in bodies:
            assert server.api.ask("POST", path, forgotten).status_code == 409
        run = server.api.start(service="kimi")
        host.accept()
    said = server.output.read_text()
    assert f"Go on: redeploy resume {run.id}" in said
    assert "llama is left out" in said
    assert "the variable KEY_THAT_IS_NOT_SET is not set" in said
