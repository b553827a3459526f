"""What `systemctl show` prints, as facts; and what they say of a start."""

from typing import Any

import pytest

from blocks.supervisor.units import as_state, parse_show
from blocks.supervisor.verdicts import verdict

SHOWN = """Type=simple
LoadState=loaded
ActiveState=activating
SubState=auto-restart
Result=exit-code
ExecMainStatus=1
ExecMainCode=1
ExecMainExitTimestampMonotonic=2000000
MainPID=0
InvocationID=0123456789abcdef0123456789abcdef
NRestarts=3
ActiveEnterTimestampMonotonic=0
FragmentPath=/etc/systemd/system/vllm.service
DropInPaths=/etc/systemd/system/vllm.service.d/a.conf /run/b.conf
User=
EnvironmentFiles=/etc/vllm.env (ignore_errors=no)
EnvironmentFiles=/etc/with space=1 (ignore_errors=yes)
NeedDaemonReload=yes
ControlGroup=
"""
LIVING: dict[str, Any] = {
    "load_state": "loaded",
    "active_state": "active",
    "sub_state": "running",
    "result": "success",
    "exec_main_status": 0,
    "exec_main_code": 0,
    "invocation_id": "i",
    "n_restarts": 0,
    "main_pid": 7,
}
ENDED = {"main_pid": None, "exec_main_code": 1, "exec_main_status": 1, "result": "exit-code"}
WAITS = {**ENDED, "active_state": "activating", "sub_state": "auto-restart"}
STOPS = {**ENDED, "active_state": "deactivating", "sub_state": "stop-sigterm"}


def test_names_and_types() -> None:
    state = as_state(parse_show(SHOWN), boot_time=1000.0)
    assert state["environment_files"] == ["/etc/vllm.env", "/etc/with space=1"]
    assert state["drop_ins"] == ["/etc/systemd/system/vllm.service.d/a.conf", "/run/b.conf"]
    assert (state["exec_main_exited"], state["active_since"]) == (1002.0, None)
    assert (state["main_pid"], state["user"], state["control_group"]) == (None, None, None)
    assert (state["n_restarts"], state["needs_daemon_reload"]) == (3, True)


def test_an_unknown_unit_is_not_taken_for_a_successful_one() -> None:
    shown = "LoadState=not-found\nActiveState=inactive\nResult=success\nExecMainStatus=0\n"
    assert as_state(parse_show(shown), 0)["load_state"] == "not-found"


@pytest.mark.parametrize(
    ("changed", "died"),
    [
        ({}, None),
        ({"active_state": "activating", "sub_state": "start-pre"}, None),
        ({"active_state": "deactivating", "sub_state": "stop-sigterm"}, None),
        (STOPS, "crashed"),
        ({"load_state": "not-found", "active_state": "inactive"}, "gone"),
        ({"n_restarts": 1}, "crashed"),
        ({"invocation_id": "j"}, "crashed"),
        ({"active_state": "failed", "result": "exit-code"}, "crashed"),
        ({"active_state": "failed", "result": "start-limit-hit"}, "crashed"),
        (
            {"active_state": "activating", "sub_state": "auto-restart", "result": "signal"},
            "crashed",
        ),
        ({"active_state": "inactive", "exec_main_code": 1}, "exited"),
        (
            {"active_state": "activating", "sub_state": "auto-restart", "exec_main_code": 1},
            "exited",
        ),
        ({"active_state": "inactive", "exec_main_code": 2, "exec_main_status": 15}, "crashed"),
    ],
)
def test_the_ways_a_start_dies(changed: dict[str, Any], died: str | None) -> None:
    assert verdict({**LIVING, **changed}, "i") == died


@pytest.mark.parametrize(
    ("changed", "died"),
    [
        (WAITS, None),
        ({**WAITS, "sub_state": "auto-restart-queued"}, None),
        (STOPS, None),
        ({"n_restarts": 1, "invocation_id": "j"}, None),
        ({"n_restarts": 2, "invocation_id": "j"}, "crashed"),
        ({**WAITS, "n_restarts": 1, "invocation_id": "j"}, "crashed"),
        ({"invocation_id": "j"}, "crashed"),  # somebody has restarted it by hand
        ({**ENDED, "active_state": "failed"}, "crashed"),
        ({"active_state": "inactive", "exec_main_code": 1, "main_pid": None}, "exited"),
    ],
)
def test_one_restart_by_systemd_may_be_tolerated(changed: dict[str, Any], died: str | None) -> None:
    assert verdict({**LIVING, **changed}, "i", tolerated=1) == died
