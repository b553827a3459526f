"""An environment is staged beside the old one on a real host, verified and switched."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.polling import until
from tests.integration.supervisor.bench import ENVIRONMENT, Bench, start_caller
from tests.wheels import wheel

pytestmark = pytest.mark.host

WHEELS = "/opt/vllm/wheels"
INDEX = "http://127.0.0.1:8900/simple"
MUTE_INDEX = """
import socketserver, time
class Mute(socketserver.BaseRequestHandler):
    def handle(self):
        time.sleep(1000)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", 8900), Mute).serve_forever()
"""
SPEAKING_INDEX = """
import http.server, socketserver
socketserver.ThreadingTCPServer.allow_reuse_address = True
handler = http.server.SimpleHTTPRequestHandler
socketserver.ThreadingTCPServer(("127.0.0.1", 8900), handler).serve_forever()
"""


@pytest.fixture
def environment(bench: Bench, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """An environment of user `keeper`, served by a service that runs as root."""
    bench.shell(
        f"rm -rf {ENVIRONMENT}* {WHEELS}; mkdir -p {WHEELS}; id keeper || useradd -m keeper"
    )
    for version in ("1.0", "2.0"):
        files = {"model.py": f"version = {version!r}\n", "data.bin": version * 1_000_000}
        made = wheel(tmp_path, "model", version, files)
        bench.host.put(made.read_bytes(), f"{WHEELS}/{made.name}")
    bench.shell(f"install -d -o keeper {ENVIRONMENT}")
    uv = "runuser -u keeper -- env HOME=/home/keeper uv"
    bench.shell(f"cd /; {uv} venv -q --offline {ENVIRONMENT}")
    install = f"{uv} pip install -q --no-index --find-links {WHEELS} --python"
    bench.shell(f"cd /; {install} {ENVIRONMENT}/bin/python model==1.0")
    bench.shell(f"cd /; {ENVIRONMENT}/bin/python -c 'import model'")
    yield lambda path: bench.shell(
        f"cd /; {path}/bin/python -B -c 'import model as m; print(m.version)'"
    )
    bench.shell(f"rm -rf {ENVIRONMENT}* {WHEELS}")


def test_an_environment_is_staged_verified_switched_and_switched_back(
    bench: Bench, environment: Callable[[str], str]
) -> None:
    wheel_url = f"file://{WHEELS}/model-2.0-py3-none-any.whl"
    lock = f"model @ {wheel_url} --hash=sha256:{_sha256(bench, '2.0')}"
    staged = bench.do("stage", "stage", environment=ENVIRONMENT, release="r1", lock=lock)
    assert staged.state == "succeeded", staged.error
    sibling, kept = f"{ENVIRONMENT}.r1", f"{ENVIRONMENT}.previous-r1"
    assert (staged.result or {})["sibling"] == sibling
    assert environment(ENVIRONMENT) == "1.0"
    look = {"environment": ENVIRONMENT, "look_at": sibling, "imports": ["model"]}
    verified = bench.do("verify", "verify", locked={"model": "2.0"}, **look)
    assert verified.state == "succeeded", verified.error
    moved = {"environment": ENVIRONMENT, "sibling": sibling, "previous": kept}
    assert (bench.do("switch", "switch", **moved).result or {})["how"] == "exchange"
    assert environment(ENVIRONMENT) == "2.0"
    back = {"environment": ENVIRONMENT, "sibling": kept, "previous": f"{ENVIRONMENT}.rejected"}
    assert bench.do("back", "switch", **back).state == "succeeded"
    assert environment(ENVIRONMENT) == "1.0"


def test_a_wrong_hash_stages_nothing(bench: Bench, environment: Callable[[str], str]) -> None:
    lock = f"model @ file://{WHEELS}/model-2.0-py3-none-any.whl --hash=sha256:{'0' * 64}"
    error = bench.do("stage", "stage", environment=ENVIRONMENT, release="r1", lock=lock).error or {}
    assert error["kind"] == "stage-failed"
    assert bench.shell(f"ls -d {ENVIRONMENT}*") == ENVIRONMENT
    assert environment(ENVIRONMENT) == "1.0"


def test_what_an_interrupted_staging_left_is_replaced(
    bench: Bench, environment: Callable[[str], str]
) -> None:
    lock = f"model==2.0 --hash=sha256:{_sha256(bench, '2.0')}"
    asked = {"environment": ENVIRONMENT, "release": "r1", "lock": lock, "indexes": [INDEX]}
    bench.shell(f"mkdir -p {WHEELS}/simple/model; ln {WHEELS}/*.whl {WHEELS}/simple/model")
    serve = ("systemd-run", "--quiet", "--unit=index", f"--working-directory={WHEELS}", "python3")
    bench.host.run([*serve, "-c", MUTE_INDEX]).check()
    caller = start_caller(bench, "stage", asked)
    staging = f"ls -d {ENVIRONMENT}.r1/bin && pgrep -x uv"
    until(lambda: bench.host.run(["sh", "-c", staging]).exit == 0, "uv at work", 30)
    bench.shell(f"touch {ENVIRONMENT}.r1/left-over; systemctl stop index")
    bench.kill("stage")
    bench.host.run([*serve, "-c", SPEAKING_INDEX]).check()
    try:
        assert caller.wait(60) == 0
    finally:
        bench.shell("systemctl stop index")
    assert bench.events("stage") == ["started", "interrupted", "started", "finished"]
    assert environment(f"{ENVIRONMENT}.r1") == "2.0"
    assert bench.host.run(["ls", f"{ENVIRONMENT}.r1/left-over"]).exit != 0


def test_a_sibling_that_is_not_ours_is_left_alone(
    bench: Bench, environment: Callable[[str], str]
) -> None:
    bench.shell(f"mkdir {ENVIRONMENT}.r1; touch {ENVIRONMENT}.r1/precious")
    error = bench.do("stage", "stage", environment=ENVIRONMENT, release="r1", lock="").error or {}
    assert error["kind"] == "sibling-exists"
    assert bench.shell(f"ls {ENVIRONMENT}.r1") == "precious"
    assert environment(ENVIRONMENT) == "1.0"


def _sha256(bench: Bench, version: str) -> str:
    return bench.shell(f"sha256sum {WHEELS}/model-{version}-py3-none-any.whl").split()[0]
