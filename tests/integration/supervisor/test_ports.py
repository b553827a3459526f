"""Where a service listens, and who else does."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from blocks.supervisor import ports
from tests.integration.polling import until
from tests.integration.supervisor.bench import UNIT, Bench

pytestmark = pytest.mark.host


def test_the_address_that_the_service_listens_on_is_told_and_the_tunnel_leads_there(
    bench: Bench,
) -> None:
    outcome = bench.watch(bench.launch("serve-v6"))
    assert outcome.state == "succeeded", outcome.error
    address = (outcome.result or {})["address"]
    assert address == "::1"
    with bench.host.tunnel(8123, address) as port:
        assert ports.healthy("127.0.0.1", port)
    with bench.host.tunnel(8123) as port:
        assert not ports.healthy("127.0.0.1", port)


@contextlib.contextmanager
def squatter(bench: Bench, address: str) -> Iterator[None]:
    """Another process on the service's port."""
    unit = "squatter.service"
    run = ("systemd-run", "--quiet", f"--unit={unit}")
    bench.host.run([*run, "python3", "/opt/probe.py", "serve", address]).check()
    listens = f"ss -ltn | grep -F {address}:8123"
    until(lambda: bench.host.run(["sh", "-c", listens]).exit == 0, "a squatter", 20)
    try:
        yield
    finally:
        bench.host.run(["systemctl", "stop", unit])


def own_address(bench: Bench) -> str:
    return bench.shell("hostname -I").split()[0]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_another_process_on_the_port_is_not_taken_for_the_service(
    bench: Bench, address: str
) -> None:
    with squatter(bench, address):
        launched = bench.launch("hang")
        began = time.time()
        error = bench.watch(launched, deadline=30).error or {}
    assert error["kind"] == "port-taken"
    assert [(one["address"], "serve" in one["command"]) for one in error["holders"]] == [
        (address, True)
    ]
    assert str(error["holders"][0]["pid"]) in error["message"]
    failed = next(one for one in bench.log() if one["event"] == "failed")
    assert failed["time"] - began < 2


def test_a_service_is_not_started_beside_another_on_its_port(bench: Bench) -> None:
    bench.put_unit("serve")
    with squatter(bench, "127.0.0.1"):
        error = bench.do("taken", "start", unit=UNIT, port=8123).error or {}
        assert bench.host.run(["systemctl", "is-active", UNIT]).exit != 0
    assert (error["kind"], len(error["holders"])) == ("port-taken", 1)
    assert "was not started" in error["message"]


def test_one_that_is_just_leaving_the_port_is_waited_for(bench: Bench) -> None:
    bench.put_unit("serve")
    with squatter(bench, "127.0.0.1"):
        at_once = "--timer-property=AccuracySec=10ms"  # else within a minute
        bench.shell(
            f"systemd-run --quiet --on-active=1.5s {at_once} systemctl stop squatter.service"
        )
        outcome = bench.do("leaving", "start", unit=UNIT, port=8123)
    assert outcome.state == "succeeded", outcome.error


def test_another_process_on_another_address_of_the_port_is_in_nobodys_way(bench: Bench) -> None:
    with squatter(bench, own_address(bench)):
        bench.put_unit("serve")
        started = bench.do("start", "start", unit=UNIT, port=8123)
        assert started.state == "succeeded", started.error
        outcome = bench.watch(started.result or {})
        assert outcome.state == "succeeded", outcome.error
        held = {**bench.watching(started.result or {}, 8), "seconds": 1}
        assert bench.do("hold", "hold", **held).state == "succeeded"


def test_another_process_on_the_port_ends_the_hold(bench: Bench) -> None:
    launched = bench.launch("serve")
    assert bench.watch(launched).state == "succeeded"
    asked = {**bench.watching(launched, 8), "seconds": 30}
    errors: list[dict[str, Any]] = []
    holding = threading.Thread(
        target=lambda: errors.append(bench.do("hold", "hold", **asked).error or {})
    )
    holding.start()
    until(lambda: bench.events("hold") == ["started"], "the start of the operation", 10)
    with squatter(bench, "0.0.0.0"):
        holding.join()
    assert (errors[0]["kind"], errors[0]["last_stage"]) == ("port-taken", "ready")
