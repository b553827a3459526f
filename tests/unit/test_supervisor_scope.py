"""Whose services these are decides where things lie and how systemd and the journal are asked."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocks.supervisor import commands, journal, lingering, processes, scope
from blocks.supervisor.failures import Refusal
from blocks.supervisor.processes import Ended

NOBODY = 65534


@pytest.fixture
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Work for a user, with variables that say otherwise; return the user's name."""
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, "/elsewhere")
    said = getattr(request, "param", "/run/user/other")
    monkeypatch.setenv("XDG_RUNTIME_DIR", said or "")
    if said is None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert scope.choose(["--user", "status"]) == ["status"]
    yield str(scope.now().user)
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    scope.choose([])


def test_root_works_for_the_system_and_its_variables_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/other")
    assert scope.choose(["status", "--user"]) == ["status", "--user"]
    chosen = scope.now()
    assert (chosen.flags, chosen.user, chosen.target) == ((), None, "multi-user.target")
    assert [os.fspath(path) for path in (chosen.state, chosen.memory, chosen.units)] == [
        "/var/lib/vllm-redeploy",
        "/run/vllm-redeploy",
        "/etc/systemd/system",
    ]
    assert "--user" not in commands.stop("v.service")
    assert commands.as_user(NOBODY, NOBODY, ("uv",)) != ("uv",)
    assert "--map-root-user" not in commands.bound("/a", "/b", ("uv",))
    assert scope.again("guard", "k")[2:] == ("guard", "k")
    assert scope.by_hand("systemctl", "restart", "v") == "systemctl restart v"
    assert os.environ["XDG_RUNTIME_DIR"] == "/run/user/other"


def test_a_user_works_for_the_user(own: str) -> None:
    home = Path(pwd.getpwuid(NOBODY).pw_dir)
    chosen = scope.now()
    assert (chosen.flags, chosen.user, chosen.target) == (("--user",), own, "default.target")
    assert (chosen.state, chosen.memory, chosen.units) == (
        home / ".local/state/vllm-redeploy",
        Path(f"/run/user/{NOBODY}/vllm-redeploy"),
        home / ".config/systemd/user",
    )
    assert commands.stop("v.service")[:2] == ("systemctl", "--user")
    assert commands.as_user(0, 0, ("uv",)) == ("uv",)
    assert "--map-root-user" in commands.bound("/a", "/b", ("uv",))
    assert scope.again("guard", "k")[2:] == ("--user", "guard", "k")
    assert scope.by_hand("systemctl", "restart", "v") == "systemctl --user restart v"


@pytest.mark.parametrize("own", [None, "", "/run/user/0", "/run/user/other"], indirect=True)
def test_a_users_systemd_is_found_whatever_the_variables_of_the_call_say(own: str) -> None:
    assert own == pwd.getpwuid(NOBODY).pw_name
    assert os.environ["XDG_RUNTIME_DIR"] == f"/run/user/{NOBODY}"


def test_the_journal_of_a_user_is_asked_for_that_users_units(own: str) -> None:
    told_by = f"_SYSTEMD_UNIT=user@{NOBODY}.service"
    assert journal.matches("v.service", None) == (
        *("_SYSTEMD_USER_UNIT=v.service", told_by, "+", told_by, "USER_UNIT=v.service"),
    )
    line = {"__REALTIME_TIMESTAMP": "1", "MESSAGE": "Started.", "_SYSTEMD_USER_UNIT": "init.scope"}
    entry = journal.parse(json.dumps({**line, "USER_UNIT": "v", "USER_INVOCATION_ID": "i"}))
    assert entry is not None
    assert (entry["unit"], entry["invocation"], own) == ("v", "i", scope.now().user)


@pytest.mark.parametrize(
    ("linger", "read", "said"),
    [
        ("no", 0, "loginctl enable-linger"),
        ("", 0, "loginctl enable-linger"),
        ("yes", 1, "usermod --append --groups systemd-journal"),
    ],
)
def test_what_only_root_can_give_is_asked_for_in_one_sentence(
    own: str, monkeypatch: pytest.MonkeyPatch, linger: str, read: int, said: str
) -> None:
    answers = {"loginctl": Ended(0, f"{linger}\n", ""), "journalctl": Ended(read, "", "")}

    def run(argv: tuple[str, ...], **_: Any) -> Ended:
        return answers[argv[0]]

    monkeypatch.setattr(processes, "run", run)
    with pytest.raises(Refusal) as refused:
        lingering.require()
    assert refused.value.hint == f"Once, as root: {said} {own}"


@pytest.mark.parametrize(
    ("words", "user", "kind"), [((), NOBODY, "not-root"), (("--user",), 0, "root")]
)
def test_who_may_not_work_in_a_scope_is_refused(
    words: tuple[str, ...], user: int, kind: str
) -> None:
    code = "import sys; from blocks.supervisor.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.geteuid = lambda: {user}; {code}", *words, "status"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)["error"]["kind"]) == (2, kind)
