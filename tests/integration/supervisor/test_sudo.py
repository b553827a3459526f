"""The supervisor called by sudo: what sudoers has to allow, and where a password goes."""

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from blocks import sudo, supervisor_client
from blocks.errors import Refused, SudoRefused
from blocks.host import Host
from blocks.supervisor_archive import archive
from blocks.supervisor_client import PATH, Supervisor
from tests.integration.supervisor.bench import another_version, patient

pytestmark = pytest.mark.host

PASSWORD = "{} 'pass' wörd"  # noqa: S105


@pytest.fixture(scope="module")
def caller(host: Host) -> Callable[..., Supervisor]:
    """Return what a user of the host calls, by a rule of sudoers."""
    host.run(["useradd", "--create-home", "caller"]).check()
    host.run(["chpasswd"], input=f"caller:{PASSWORD}\n").check()
    host.run(["cp", "-r", "/root/.ssh", "/home/caller/"]).check()
    host.run(["chown", "-R", "caller:", "/home/caller/.ssh"]).check()

    def ruled(rule: str, **more: Any) -> Supervisor:
        host.put(f"{rule}\n".encode(), "/etc/sudoers.d/caller", 0o440)
        return Supervisor(patient(host, user="caller", **more))

    return ruled


def test_sudo_has_to_allow_the_supervisor_and_nothing_else(
    host: Host, caller: Callable[..., Supervisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = sudo.allowing("caller", PATH, password=False)
    allowed = caller(line, sudo=True)
    assert allowed.install() == allowed.call("version", {})["version"]
    without = host.run(["runuser", "-u", "caller", "--", PATH, "status"], input="{}")
    assert json.loads(without.stdout)["error"]["kind"] == "not-root"
    monkeypatch.setattr(supervisor_client, "archive", another_version)
    with pytest.raises(SudoRefused, match="a password is required") as not_put:
        allowed.install()
    by_root = not_put.value.hint.partition("| ssh root@")[2].partition(" ")[2].partition("`")[0]
    host.run(["sh", "-c", by_root], input="#!/bin/sh\necho by root").check()
    assert (host.run([PATH]).stdout, host.run(["stat", "-c%a", PATH]).stdout) == (
        "by root\n",
        "755\n",
    )
    monkeypatch.undo()
    Supervisor(host).install()
    with pytest.raises(SudoRefused, match="sudo refuses caller@") as nothing:
        caller("", sudo=True).call("status", {})
    assert nothing.value.hint.endswith(line)


def test_the_password_for_sudo_is_for_sudo_alone(
    host: Host, caller: Callable[..., Supervisor]
) -> None:
    line = sudo.allowing("caller", PATH, password=True)
    given = {"sudo": True, "sudo_password": SecretStr(PASSWORD)}
    once = "Defaults:caller timestamp_type=global"
    for rule in (
        line,  # it asks
        f"{once}\n{line}",  # it would not ask again
        sudo.allowing("caller", PATH, password=False),  # it never asks
    ):
        asking = caller(rule, **given)
        asking.host.run(["sudo", "-S", "-v"], input=f"{PASSWORD}\n").check()
        assert asking.install() == archive().version
        with pytest.raises(Refused, match="no such argument"):
            asking.call("operations", {"odd": "é\n"})
    writing = caller("caller ALL=(root) NOPASSWD: /usr/bin/dd, PASSWD: ALL", **given).host
    data = os.urandom(300_000)
    writing.put(data, "/opt/by-caller", 0o600)
    digest = hashlib.sha256(data).hexdigest()
    host.run(["sha256sum", "--check"], input=f"{digest}  /opt/by-caller").check()
    assert host.run(["stat", "-c%a %U", "/opt/by-caller"]).stdout == "600 root\n"
    held = "find /tmp -name 'redeploy-*' -user caller"
    lying = host.run(["sh", "-c", f"ls -d /opt/by-caller*; {held}"]).stdout.split()
    assert lying == ["/opt/by-caller"]


def test_a_wrong_password_is_tried_once_and_told_nowhere(
    host: Host, caller: Callable[..., Supervisor]
) -> None:
    line = sudo.allowing("caller", PATH, password=True)
    wrong = "wr0ng-and-secret"
    cached = f"Defaults:caller timestamp_type=global\n{line}"
    supervisor = caller(cached, sudo=True, sudo_password=SecretStr(wrong))
    supervisor.host.run(["sudo", "-S", "-v"], input=f"{PASSWORD}\n").check()
    for _ in range(2):
        with pytest.raises(SudoRefused, match="1 incorrect password attempt") as refused:
            supervisor.install()
        assert refused.value.hint == f"Check sudo_password and sudoers. The line it needs: {line}"
    with pytest.raises(SudoRefused, match="a password is required"):
        caller(line, sudo=True).call("status", {})
    journal = host.run(["journalctl", "--no-pager", "-q"], timeout=60).stdout
    assert journal.count("incorrect password attempt") == 1
    assert wrong not in journal + str(refused.value) + repr(supervisor.host)
    assert PASSWORD not in journal
