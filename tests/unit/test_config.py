"""The configuration file: one sentence a mistake, and nothing else."""

from pathlib import Path

import pytest

from blocks import config
from blocks.errors import ConfigurationError

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
        ('[hosts."GPU 1"]\naddress = "10.0.0.1"\n', "GPU 1"),
        (SERVICE.replace('host = "gpu01"', 'host = "gpu02"'), "names no host"),
        (SERVICE.replace('"vllm.service"', '"vllm.service; reboot"'), "services.kimi.unit"),
        (SERVICE.replace('"/opt/vllm/env"', '"/opt/../etc"'), "services.kimi.environment"),
        (SERVICE.replace('"/opt/vllm/env"', '"env"'), "services.kimi.environment"),
        (SERVICE + 'nightly = "at three"\n', "services.kimi.nightly"),
        (SERVICE + 'imports = ["vllm; import os"]\n', "services.kimi.imports"),
        (SERVICE + 'indexes = ["https://me:secret@index.example/simple"]\n', "credentials"),
        (SERVICE + 'debug_files = ["*.pt"]\n', "services.kimi.debug_files"),
        (SERVICE + "[services.kimi.benchmark]\nprompts = 3\n", "services.kimi.benchmark.prompts"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        config.load(write(tmp_path, text))
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


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


@pytest.mark.parametrize("value", ['"sk-secret"', '{ env = "NOT_SET_HERE" }', "{ vault = 'x' }"])
def test_a_secret_in_the_file_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"services\.kimi\.api_key") as refused:
        config.load(write(tmp_path, SERVICE + f"api_key = {value}\n"))
    assert "sk-secret" not in str(refused.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        config.load(tmp_path / "none.toml")


def test_an_unknown_service_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"It has: kimi\."):
        config.load(write(tmp_path, SERVICE)).service("llama")
