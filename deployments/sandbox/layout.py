"""Lays a story out on a host, with the programs an operator would use: useradd, uv, systemd."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
import time
import urllib.request
from pathlib import Path, PurePosixPath

from deployments.sandbox import catalog, index, ssh
from deployments.sandbox.errors import SandboxError
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import STORIES, Story

ON_HOST = Path(__file__).with_name("on_host.py")
HEALTHY_SECONDS = 60
NO_CUBIN = "no-cubin"
"""Below the small story's index: the same without any flashinfer-cubin."""
ASK = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=2)"


def lay_out(host: SandboxHost, story: Story) -> None:
    """Install, configure and start the service of a story, as it is before the redeploy."""
    ssh.run(host, "useradd", "--system", "--create-home", "--home-dir", home(story), story.user)
    ssh.run(host, "tar", "--extract", "--directory=/", "--no-same-owner", stdin=_files(story))
    ssh.run(host, "install", "-d", "-o", story.user, "-g", story.user, story.data_path)
    _install(host, story)
    ssh.run(host, "python3", "-", json.dumps(_left_behind(host, story)), stdin=ON_HOST.read_bytes())
    ssh.run(host, "systemctl", "daemon-reload")
    ssh.run(host, "systemctl", "enable", "--now", story.unit)
    wait_until_healthy(host, story)


def home(story: Story) -> str:
    """Return the home folder of the service's user."""
    return f"/var/lib/{story.user}"


def bystanders(story: Story) -> dict[str, list[str]]:
    """Return what lies beside the dumps and must outlive a clean-up, by its kind."""
    pattern = story.debug_files.pattern
    return {
        "links": [pattern.replace("*", "link")],
        "others": [pattern.replace("*", "of-root")],
        "notes": [str(PurePosixPath(pattern).with_name("notes.txt"))],
    }


def dumps(story: Story) -> dict[str, int]:
    """Return every dump with its size; the sizes differ and add up to the story's total."""
    asked = story.debug_files
    average = asked.total_bytes // asked.count
    spread = average // (2 * asked.count)
    sizes = [average + spread * (2 * i - asked.count) for i in range(asked.count)]
    sizes[-1] += asked.total_bytes - sum(sizes)
    name = asked.pattern.replace("*", "layer_{:02d}")
    return {name.format(i): size for i, size in enumerate(sizes)}


def wait_until_healthy(host: SandboxHost, story: Story, seconds: float = HEALTHY_SECONDS) -> None:
    """Wait until the service answers where it listens.

    Raises:
        SandboxError: it does not.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if _is_healthy(host, story):
            return
        time.sleep(0.1)
    log = ssh.run(host, "journalctl", "-n", "20", "--no-pager", "-u", story.unit, check=False)
    raise SandboxError(
        f"{story.unit} is not healthy after {seconds:.0f} s:\n{log.stdout.decode()}",
        f"Look on the host: ssh root@{host.address}.",
    )


def _is_healthy(host: SandboxHost, story: Story) -> bool:
    if story.on_loopback:
        where = f"[{story.listen}]" if ":" in story.listen else story.listen
        asked = f"http://{where}:{story.port}/health"
        return ssh.run(host, "python3", "-c", ASK, asked, check=False).returncode == 0
    try:
        with urllib.request.urlopen(f"http://{host.address}:{story.port}/health", timeout=2) as got:
            return bool(got.status == 200)
    except OSError:
        return False


def publish(folder: Path) -> None:
    """Write the wheel indexes of all stories below a folder."""
    for story in STORIES.values():
        cubins = [catalog.flashinfer_cubin(version) for version in story.offered_cubins]
        others = [catalog.filler(name, version) for name, version in story.offered]
        index.write(folder / story.index_path, story.nightly, [story.old], [*cubins, *others])
    few = STORIES["small"]
    index.write(folder / few.index_path / NO_CUBIN, few.nightly, [few.old], [])


def wheel_index(host: SandboxHost, story: Story) -> str:
    """Return the base of the story's nightly index, as a host is to use it."""
    return _below_index(host, story, "wheels")


def simple_index(host: SandboxHost, story: Story) -> str:
    """Return the story's index of everything that is not vLLM, as a host is to use it."""
    return _below_index(host, story, "simple")


def _below_index(host: SandboxHost, story: Story, part: str) -> str:
    return "/".join(piece for piece in (host.index_url, story.index_path, part) if piece)


def _install(host: SandboxHost, story: Story) -> None:
    as_user = ("runuser", "-u", story.user, "--", "env", "--chdir=/", f"HOME={home(story)}")
    ssh.run(host, *as_user, "uv", "venv", "--python", "/usr/bin/python3", story.environment)
    wanted = catalog.packages(story.old) | {"flashinfer-cubin": story.cubin}
    pins = "".join(f"{name}=={version}\n" for name, version in sorted(wanted.items()))
    ssh.run(
        host,
        *as_user,
        *("uv", "pip", "install", "--python", story.environment, "--no-deps", "-r", "-"),
        *("--default-index", simple_index(host, story)),
        *("--index", f"{wheel_index(host, story)}/{story.old.commit}"),
        stdin=pins.encode(),
    )


def _left_behind(host: SandboxHost, story: Story) -> dict[str, object]:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = ssh.output(host, f"{story.environment}/bin/python", "-c", code).strip()
    appended = {f"{site}/{path}": text for path, text in story.debug_code.items()}
    return {
        "user": story.user,
        "appended": appended,
        "dumps": dumps(story),
        **bystanders(story),
    }


def _files(story: Story) -> bytes:
    """Return a tar archive of the files that an operator wrote by hand."""
    name = story.unit.removesuffix(".service")
    files = {
        f"etc/systemd/system/{story.unit}": _unit(story, f"/etc/vllm/{name}.env"),
        f"etc/systemd/system/{story.unit}.d/10-limits.conf": "[Service]\nLimitNOFILE=65536\n",
        f"etc/vllm/{name}.env": _environment(story),
        "etc/uv/uv.toml": f'cache-dir = "{story.data_path}/uv-cache"\npython-downloads = "never"\n',
        f"{story.model.strip('/')}/config.json": json.dumps(story.model_config, indent=2) + "\n",
    }
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return target.getvalue()


def _environment(story: Story) -> str:
    variables = {
        "VLLM_STANDIN_LOAD_SECONDS": "3",
        "VLLM_STANDIN_METRICS_RENAMED_IN": story.nightly.version,
        "VLLM_NO_USAGE_STATS": "1",
    }
    if story.api_key:
        variables["VLLM_API_KEY"] = story.api_key
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def _unit(story: Story, environment_file: str) -> str:
    command = [
        *(f"{story.environment}/bin/vllm", "serve", story.model),
        *("--served-model-name", story.served_model),
        *("--host", story.listen, "--port", str(story.port), *story.serve_options),
    ]
    return f"""[Unit]
Description=vLLM serving {story.served_model}
After=network.target
StartLimitIntervalSec=120
StartLimitBurst=6

[Service]
User={story.user}
EnvironmentFile={environment_file}
ExecStart={shlex.join(command)}
Restart=always
RestartSec=1
KillMode=mixed
TimeoutStopSec=30

[Install]
WantedBy=multi-user.target
"""
