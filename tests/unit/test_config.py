"""The configuration file: one sentence a mistake, and nothing else."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from blocks import config
from blocks.errors import ConfigurationError
from blocks.hooks import HttpHook
from blocks.host import Host
from blocks.service import Service

HOST = '[hosts.gpu01]\naddress = "10.0.0.1"\n'
SERVICE = HOST + (
    '[services.kimi]\nhost = "gpu01"\nunit = "vllm.service"\nenvironment = "/opt/vllm/env"\n'
)


def write(folder: Path, text: str) -> Path:
    path = folder / "redeploy.toml"
    path.write_text(text)
    return path


def test_a_service_knows_its_host(tmp_path: Path) -> None:
    service = config.load(write(tmp_path, SERVICE)).service("kimi")
    assert service.host.address == "10.0.0.1"
    assert service.unit == "vllm.service"
    assert service.wheel_index == "https://wheels.vllm.ai"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts = 3", "hosts"),
        ("[hosts.gpu01", "is not TOML"),
        ("[machines.a]\n", "[machines]"),
        (HOST + 'colour = "red"\n', "hosts.gpu01.colour is not a field"),
        (HOST + "user_units = true\n", "user_units is for a user who is not root"),
        (HOST + 'user = "a"\nsudo = true\nuser_units = true\n', "without sudo"),
        (HOST + 'user = "a"\n', "a is not root: set sudo = true, or user_units = true"),
        ('[hosts."GPU 1"]\naddress = "10.0.0.1"\n', "GPU 1"),
        (SERVICE.replace('host = "gpu01"', 'host = "gpu02"'), "names no host"),
        (SERVICE.replace('"vllm.service"', '"vllm.service; reboot"'), "services.kimi.unit"),
        (SERVICE.replace('"/opt/vllm/env"', '"/opt/../etc"'), "services.kimi.environment"),
        (SERVICE.replace('"/opt/vllm/env"', '"env"'), "services.kimi.environment"),
        (SERVICE.replace('"/opt/vllm/env"', '"/"'), "name a path below it. "),
        (SERVICE.replace('"/opt/vllm/env"', '"/opt//env"'), "write '/opt/env'. Nothing"),
        (SERVICE + 'nightly = "at three"\n', "services.kimi.nightly"),
        (SERVICE + 'imports = ["vllm; import os"]\n', "services.kimi.imports"),
        (SERVICE + 'indexes = ["https://me:secret@index.example/simple"]\n', "credentials"),
        (SERVICE + 'debug_files = ["*.pt"]\n', "services.kimi.debug_files"),
        (SERVICE + "grace_seconds = true\n", "services.kimi.grace_seconds"),
        (SERVICE + 'stage_limits = { "loading weights" = true }\n', "services.kimi.stage_limits"),
        (SERVICE + "[services.kimi.benchmark]\nnum_prompts = true\n", "benchmark.num_prompts"),
        (HOST + "link_patience_seconds = true\n", "hosts.gpu01.link_patience_seconds"),
        (SERVICE + "[services.kimi.benchmark]\nprompts = 3\n", "services.kimi.benchmark.prompts"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        config.load(write(tmp_path, text))
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
    assert ".." not in str(refused.value).replace("/../", "").replace("'..'", "")
    assert "nothing was changed" not in str(refused.value)


def test_a_secret_comes_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("from-the-file\n")
    monkeypatch.setenv("KIMI_KEY", "from-the-environment")
    for where, secret in (
        ('env = "KIMI_KEY"', "from-the-environment"),
        (f'file = "{tmp_path}/key"', "from-the-file"),
    ):
        text = SERVICE + f"api_key = {{ {where} }}\n"
        service = config.load(write(tmp_path, text)).service("kimi")
        assert service.api_key is not None
        assert service.api_key.get_secret_value() == secret
        assert secret not in repr(service)


@pytest.mark.parametrize(
    "value", ['"sk-secret"', "{ vault = 'x' }", "{ env = 'A', file = '/sk-secret' }"]
)
def test_a_secret_in_the_file_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"services\.kimi\.api_key") as refused:
        config.load(write(tmp_path, SERVICE + f"api_key = {value}\n"))
    assert "sk-secret" not in str(refused.value)


KEY = "topsecret42"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "the variable KEYX is not set or empty"),
        (" \n", "the variable KEYX is not set or empty"),
        (f"{KEY}\nnext", "the variable KEYX holds more than one printable line"),
        (f"{KEY}\x1b[31m", "the variable KEYX holds more than one printable line"),
    ],
)
def test_a_secret_that_cannot_be_had_stops_only_its_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, said: str
) -> None:
    monkeypatch.delenv("KEYX", raising=False)
    if value is not None:
        monkeypatch.setenv("KEYX", value)
    other = SERVICE.removeprefix(HOST).replace("kimi", "llama")
    found = config.load(write(tmp_path, SERVICE + 'api_key = { env = "KEYX" }\n' + other))
    assert found.service("llama").unit == "vllm.service"
    assert list(found.services) == ["llama"]
    with pytest.raises(ConfigurationError, match=r"services\.kimi\.api_key") as refused:
        found.service("kimi")
    assert said in str(refused.value)
    assert KEY not in str(refused.value)
    service, lacks = found.to_look_at("kimi")
    assert service.api_key is None
    assert lacks is refused.value


def test_a_host_without_its_passphrase_stops_its_services_alone(tmp_path: Path) -> None:
    other = (HOST + SERVICE.removeprefix(HOST)).replace("gpu01", "gpu02").replace("kimi", "llama")
    text = HOST + f'passphrase = {{ file = "{tmp_path}/none" }}\n' + SERVICE.removeprefix(HOST)
    found = config.load(write(tmp_path, text + other))
    assert list(found.hosts) == ["gpu02"]
    assert found.service("llama").host.address == "10.0.0.1"
    with pytest.raises(ConfigurationError, match=r"hosts\.gpu01\.passphrase.* cannot be read"):
        found.to_look_at("kimi")


def test_a_password_for_sudo_is_asked_for_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = HOST + 'sudo_password = { env = "SUDOX" }\n'
    text = host + "sudo = true\n" + SERVICE.removeprefix(HOST)
    monkeypatch.delenv("SUDOX", raising=False)
    with pytest.raises(ConfigurationError, match=r"sudo_password: the variable SUDOX is not set"):
        config.load(write(tmp_path, text)).to_look_at("kimi")
    monkeypatch.setenv("SUDOX", KEY)
    service = config.load(write(tmp_path, text)).service("kimi")
    assert service.host.sudo_password is not None
    assert KEY not in repr(service)
    with pytest.raises(ConfigurationError, match="sudo_password is for sudo = true") as refused:
        config.load(write(tmp_path, host))
    assert KEY not in str(refused.value)
    with pytest.raises(ValidationError, match="one printable line") as invalid:
        Host(address="h", sudo=True, sudo_password=f"{KEY}\nnext")
    assert KEY not in str(invalid.value)
    assert Host(address="h", sudo_password="").sudo_password is None


def test_a_secret_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe\x00k")
    text = SERVICE + f'api_key = {{ file = "{tmp_path}/key" }}\n'
    with pytest.raises(ConfigurationError, match=r"key is not UTF-8 text"):
        config.load(write(tmp_path, text)).service("kimi")


def test_a_key_is_taken_without_its_line_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYX", f"{KEY}\n")
    service = config.load(write(tmp_path, SERVICE + 'api_key = { env = "KEYX" }\n')).service("kimi")
    assert service.api_key is not None
    assert service.api_key.get_secret_value() == KEY


@pytest.mark.parametrize("value", [f"{KEY} {KEY}", f"{KEY}é"])
def test_a_key_that_is_no_header_is_refused_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("KEYX", value)
    with pytest.raises(ConfigurationError, match="one word of ASCII text") as refused:
        config.load(write(tmp_path, SERVICE + 'api_key = { env = "KEYX" }\n'))
    assert KEY not in str(refused.value)
    with pytest.raises(ValidationError) as invalid:
        Service(host=Host(address="h"), unit="v", environment="/e", api_key=f"{KEY}\nnext")
    assert KEY not in str(invalid.value)


HOOK = SERVICE + (
    '[services.kimi.undrain]\nargv = ["router-mark", "up"]\n'
    '[services.kimi.drain]\nurl = "https://router.example/out"\nbearer = { env = "ROUTER_KEY" }\n'
)


def test_the_secrets_of_a_hook_come_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("from-the-file\n")
    monkeypatch.setenv("ROUTER_KEY", "from-the-environment\n")
    headers = f'headers = {{ "X-Team" = "ml", "X-Key" = {{ file = "{tmp_path}/key" }} }}\n'
    service = config.load(write(tmp_path, HOOK + headers)).service("kimi")
    assert isinstance(service.drain, HttpHook)
    assert service.drain.all_headers() == {
        "X-Team": "ml",
        "X-Key": "from-the-file",
        "Authorization": "Bearer from-the-environment",
    }
    assert "from-the" not in repr(service)


def test_what_is_taken_out_of_a_router_has_to_be_put_back(tmp_path: Path) -> None:
    only = HOOK.partition("[services.kimi.undrain]")[0] + '[services.kimi.drain]\nargv = ["x"]\n'
    with pytest.raises(ConfigurationError, match="drain and undrain go together"):
        config.load(write(tmp_path, only)).service("kimi")


def test_a_hook_without_its_secret_stops_its_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROUTER_KEY", raising=False)
    found = config.load(write(tmp_path, HOOK))
    with pytest.raises(ConfigurationError, match=r"services\.kimi\.drain\.bearer.*ROUTER_KEY"):
        found.service("kimi")
    header = HOOK.partition("bearer")[0] + 'headers = { "X-Key" = { env = "ROUTER_KEY" } }\n'
    found = config.load(write(tmp_path, header))
    with pytest.raises(ConfigurationError, match=r"services\.kimi\.drain\.headers\.X-Key"):
        found.service("kimi")


def test_a_hooks_key_does_not_belong_in_the_file(tmp_path: Path) -> None:
    text = HOOK.replace('{ env = "ROUTER_KEY" }', f'"{KEY}"')
    with pytest.raises(ConfigurationError, match=r"services\.kimi\.drain\.bearer") as refused:
        config.load(write(tmp_path, text))
    assert KEY not in str(refused.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        config.load(tmp_path / "none.toml")


def test_an_unknown_service_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"It has: kimi\."):
        config.load(write(tmp_path, SERVICE)).service("llama")
