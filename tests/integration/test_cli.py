"""The command line, as a person and as a program use it."""

import json
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deployments.sandbox import story
from tests.chaos.checker import violations
from tests.integration import on_host
from tests.integration.polling import until
from tests.integration.scenes import Scene
from tests.integration.serving import REDEPLOY, Serving, environment

pytestmark = pytest.mark.timeout(180)

HEAVY = {"prefect", "fabric", "paramiko", "httpx", "sqlalchemy", "fastapi"}
UNREACHABLE = "10.77.0.250"


@dataclass(frozen=True)
class Terminal:
    """A terminal in which `redeploy` is called."""

    home: Path
    config: Path
    api: str | None = None

    def argv(self, *words: str) -> list[str]:
        return [str(REDEPLOY), *words, "--config", str(self.config)]

    @property
    def environment(self) -> dict[str, str]:
        more = {"PREFECT_API_URL": f"{self.api}/api"} if self.api else {}
        return environment(self.home, COLUMNS="400", NO_COLOR="1", **more)

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def json(self, *words: str) -> Any:
        done = self.call(*words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def terminal(small_host: Scene, server: Serving, tmp_path: Path) -> Terminal:
    """A terminal for the small story, on the session's Prefect server."""
    return Terminal(tmp_path, small_host.config, server.url)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from deployments.cli import main\n"
        "sys.argv = ['redeploy', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    helped, _, loaded = done.stdout.partition("LOADED")
    assert "Redeploy a service" in helped
    assert not HEAVY & set(loaded.split())


@pytest.mark.parametrize("command", ["run", "plan", "status", "history", "diagnose", "serve"])
def test_every_command_explains_itself(command: str) -> None:
    done = subprocess.run([REDEPLOY, command, "--help"], capture_output=True, text=True, check=True)
    assert "--config" in done.stdout


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (None, ("status", "kimi"), "cannot be read"),
        ("[hosts", ("status", "kimi"), "is not TOML"),
        ("", ("status", "kimi"), "no service 'kimi'"),
        ("[services.kimi]\nhost = 'a'\n", ("run", "kimi"), "services.kimi.host"),
        ("[hosts.a]\naddress = 'a b'\n", ("plan", "kimi"), "hosts.a.address"),
        ("[hosts.a]\naddress = 'a'\nports = 1\n", ("history", "kimi"), "hosts.a.ports"),
        ("[machines.a]\n", ("serve",), "no section [machines]"),
    ],
)
def test_a_wrong_configuration_is_one_sentence_and_exit_2(
    tmp_path: Path, text: str | None, words: tuple[str, ...], said: str
) -> None:
    config = tmp_path / "redeploy.toml"
    if text is not None:
        config.write_text(text)
    done = Terminal(tmp_path, config).call(*words)
    _assert_one_sentence(done, said)
    assert done.returncode == 2


def test_a_wrong_wish_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    nowhere = Terminal(tmp_path, tmp_path / "none")
    for words, said in (
        (("--attempts", "9"), "attempts: '9' will not do: input should be less than or equal to 5"),
        (("--reason", "a\nb"), "must be one printable line"),
    ):
        done = nowhere.call("run", "kimi", *words)
        _assert_one_sentence(done, said)
        assert done.returncode == 2


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PREFECT_API_URL", "http://127.0.0.1:9/api", "Prefect's API at http://127.0.0.1:9/api"),
        ("PREFECT_HOME", "/proc/nope", "Prefect's folder /proc/nope cannot be used"),
    ],
)
def test_a_prefect_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, variable: str, value: str, said: str
) -> None:
    config = tmp_path / "redeploy.toml"
    config.write_text(
        '[hosts.a]\naddress = "h"\n'
        '[services.kimi]\nhost = "a"\nunit = "v"\nenvironment = "/opt/e"\n'
    )
    terminal = Terminal(tmp_path, config)
    done = subprocess.run(
        terminal.argv("plan", "kimi"),
        env={**terminal.environment, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    starting, sentence = done.stderr.splitlines()
    assert starting.startswith("Starting Prefect")
    assert said in sentence


@pytest.mark.host
def test_a_host_that_cannot_be_reached_is_one_sentence(terminal: Terminal) -> None:
    done = _changed(terminal, address=UNREACHABLE).call("status", "small")
    _assert_one_sentence(done, "could not be reached")
    assert done.returncode == 1


@pytest.mark.host
def test_a_host_with_another_key_is_one_sentence(
    terminal: Terminal, small_host: Scene, tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    kind, key = _new_key(tmp_path / "other").split()[:2]
    known.write_text(f"{small_host.host.address} {kind} {key}\n")
    done = _changed(terminal, known_hosts=str(known)).call("status", "small")
    _assert_one_sentence(done, "is not one recorded for it")
    assert done.returncode == 1


@pytest.mark.host
def test_a_key_that_the_host_does_not_know_is_one_sentence(
    terminal: Terminal, tmp_path: Path
) -> None:
    _new_key(tmp_path / "stranger")
    done = _changed(terminal, key_file=str(tmp_path / "stranger")).call("history", "small")
    _assert_one_sentence(done, "does not let us in")
    assert done.returncode == 1


@pytest.mark.host
def test_plan_status_history_and_diagnose_speak_json(terminal: Terminal, small_host: Scene) -> None:
    scene = small_host.fresh()
    before = on_host.unit(scene.host, scene.story.unit)
    planned = terminal.json("plan", "small")
    assert planned["ok"] is True
    assert planned["plan"]["after"] == scene.story.nightly.version
    assert planned["plan"]["delta"]["count"] == 7
    status = terminal.json("status", "small")
    assert status["facts"]["unit"]["active_state"] == "active"
    assert status["locks"] == []
    assert terminal.json("history", "small") == []
    assert terminal.json("diagnose", "small") == {"healthy": True, "findings": []}
    after = on_host.unit(scene.host, scene.story.unit)
    assert (before["MainPID"], before["InvocationID"]) == (after["MainPID"], after["InvocationID"])


@pytest.mark.host
def test_a_missing_key_stops_only_what_asks_the_service(
    terminal: Terminal, small_host: Scene, tmp_path: Path
) -> None:
    small_host.fresh()
    config = tmp_path / "keyless.toml"
    named = re.compile(r'api_key = \{ *file = "[^"]*" *\}')
    text, found = named.subn(
        'api_key = { env = "KEY_THAT_IS_NOT_SET" }', terminal.config.read_text()
    )
    assert found == 1
    config.write_text(text)
    keyless = Terminal(tmp_path, config, terminal.api)
    why = "small.api_key: the variable KEY_THAT_IS_NOT_SET is not set or empty"
    status = keyless.json("status", "small")
    assert status["facts"]["unit"]["active_state"] == "active"
    assert status["serves"].startswith("not asked: ")
    assert why in status["serves"]
    assert keyless.call("diagnose", "small").returncode == 0
    history = keyless.call("history", "small")
    assert (history.returncode, history.stdout) == (0, "")
    assert "No redeploy of" in history.stderr
    refused = keyless.call("run", "small")
    _assert_one_sentence(refused, why)
    assert refused.returncode == 2


@pytest.mark.host
def test_a_refusal_is_said_once(terminal: Terminal, small_host: Scene) -> None:
    small_host.fresh()
    done = terminal.call("run", "small", "--resume", "11111111-2222-3333-4444-555555555555")
    assert done.returncode == 1
    assert done.stdout.count("The host knows no redeploy") == 1


@pytest.mark.host
def test_a_plan_that_would_be_refused_has_an_exit_code_of_its_own(
    kimi: Scene, server: Serving, tmp_path: Path
) -> None:
    done = Terminal(tmp_path, kimi.config, server.url).call("plan", "kimi", "--skew", "refuse")
    assert done.returncode == 3
    assert "A run would be refused: Packages will be out of step" in done.stdout


@pytest.mark.host
def test_diagnose_finds_why_a_service_crashes_again_and_again(
    terminal: Terminal, small_host: Scene
) -> None:
    scene = small_host.fresh()
    story.set_failure(scene.host, "crash", "loading")
    on_host.restart(scene.host, scene.story.unit)
    until(
        lambda: int(on_host.unit(scene.host, scene.story.unit)["NRestarts"]) > 0,
        "systemd restarts it",
        30,
    )
    (finding,) = terminal.json("diagnose", "small")["findings"]
    assert "safetensors" in finding["root_cause"]


@pytest.mark.host
def test_a_service_on_hold_is_not_redeployed_whoever_asks(
    terminal: Terminal, small_host: Scene
) -> None:
    scene = small_host.fresh()
    before = on_host.unit(scene.host, scene.story.unit)
    over = terminal.call("hold", "small", "--until", "2020-01-01T00:00")
    assert (over.returncode, over.stdout) == (2, "")
    _assert_one_sentence(over, "2020-01-01 00:00 UTC is over.")
    held = terminal.call("hold", "small", "--until", "2099-01-01T00:00", "--reason", "a demo")
    assert held.returncode == 0
    said = "small is on hold until 2099-01-01 00:00 UTC: a demo"
    assert said in held.stdout + held.stderr
    assert "a demo" in terminal.call("status", "small").stdout
    nightly = terminal.json("run", "small")
    assert nightly["ok"] is True
    assert nightly["verdict"].startswith(f"Nothing was done: {said}")
    named = terminal.call("run", "small", "--target", scene.story.nightly.version)
    assert named.returncode == 1
    assert "Lift it: redeploy unhold small" in named.stdout + named.stderr
    assert on_host.unit(scene.host, scene.story.unit) == before
    assert on_host.locks(scene.host) == []
    assert terminal.call("unhold", "small").returncode == 0
    assert terminal.call("plan", "small").returncode == 0


@pytest.mark.host
def test_a_killed_run_goes_on_by_its_id_and_is_taken_back(
    small_host: Scene, tmp_path: Path
) -> None:
    """Without a server of the operator's own: the run brings one, which ends with it."""
    scene = small_host.fresh()
    terminal = Terminal(tmp_path, scene.config)
    refused = terminal.call("rollback", "small")
    assert refused.returncode == 1
    assert "No release lies beside" in refused.stdout + refused.stderr
    run = _killed_while_it_loads(scene, terminal, "attempt-1/wait-healthy", "run", "small")
    status = terminal.call("status", "small").stdout
    assert f"redeploy resume {run}" in status
    assert "it has stopped the service" in status
    done = terminal.json("resume", run)
    assert done["ok"] is True
    assert done["id"] == run
    assert done["record"]["result"] == "live"
    assert set(on_host.started(scene.host, run).values()) == {1}
    version = {"version": scene.story.nightly.version}
    assert on_host.http(scene.host, f"{scene.url}/version") == version
    assert [one["id"] for one in terminal.json("history", "small")] == [run]
    slow = ("rollback", "small", "--reason", "it is slow")
    gone = _killed_while_it_loads(scene, terminal, "revert", *slow)
    refused = terminal.call("run", "small", "--resume", gone)
    assert refused.returncode == 1
    assert f"{gone} is a rollback; nothing was changed." in refused.stdout + refused.stderr
    back = terminal.json("resume", gone)
    assert (back["ok"], back["id"]) == (True, gone)
    assert set(on_host.started(scene.host, gone).values()) == {1}
    old = scene.story.old.version
    assert back["verdict"] == f"Rolled back to {old}; serving."
    assert (back["record"]["after"], back["record"]["why"]) == (old, "it is slow")
    assert on_host.http(scene.host, f"{scene.url}/version") == {"version": old}
    status = terminal.call("status", "small").stdout
    assert "as it was found here, live since" in status
    assert "as it was recorded" in status
    on_host.append(scene.host, f"{scene.story.environment}/pyvenv.cfg", "# by hand")
    status = terminal.call("status", "small").stdout
    assert "CHANGED since it was recorded" in status
    assert violations(scene) == []


def _killed_while_it_loads(scene: Scene, terminal: Terminal, step: str, *words: str) -> str:
    """Run a command, kill it when a step has begun, and return its run's id."""
    with on_host.following(scene.host) as log:
        process = subprocess.Popen(
            terminal.argv(*words),
            env=terminal.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        run = log.wait_for("started", step, seconds=90).holder
        process.kill()
        process.wait()
    assert not _processes_of_session(process.pid)
    return run


def _processes_of_session(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def _changed(terminal: Terminal, **host: str) -> Terminal:
    """Return a terminal whose configuration names another address, key or known host."""
    lines = terminal.config.read_text().splitlines()
    kept = [line for line in lines if line.partition(" = ")[0] not in host]
    quick = ["connect_timeout_seconds = 2", "link_patience_seconds = 1"]
    fields = [f"{name} = {json.dumps(value)}" for name, value in host.items()]
    config = terminal.home / "changed.toml"
    config.write_text("\n".join([kept[0], *quick, *fields, *kept[1:]]) + "\n")
    return Terminal(terminal.home, config, terminal.api)


def _new_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path.with_suffix(".pub").read_text()


def _assert_one_sentence(done: subprocess.CompletedProcess[str], said: str) -> None:
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr + done.stdout
