"""A story on a real host, put back to its beginning for every test that changes it."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deployments.sandbox import hosts, ssh, toml
from deployments.sandbox.ssh import SandboxHost
from deployments.sandbox.stories import Story
from deployments.sandbox.story import prepare

Published = Callable[[Path], None]


@dataclass
class Scene:
    """One story on one host, with the configuration that describes it.

    Attributes:
        story: the story.
        host: how to reach the host.
        service: the name of the service in the configuration.
        config: the `redeploy.toml` for it.
        extra: further lines of the service's table in it.
        load_seconds: how long the stand-in loads; None: as the story has it.
        published: who is told the configuration.
        rewrite: makes another configuration of it first.
    """

    story: Story
    host: SandboxHost
    service: str
    config: Path
    extra: str
    load_seconds: float | None = None
    published: list[Published] = field(default_factory=list)
    rewrite: Callable[[str], str] = str
    untouched: bool = True

    @property
    def url(self) -> str:
        """Where the service is reached on its own host."""
        return f"http://127.0.0.1:{self.story.port}"

    def fresh(self) -> "Scene":
        """Put the host back to the story's beginning if a test has touched it since."""
        if not self.untouched:
            self.host = prepare(self.host.name, self.story.key, say=_quiet)
            self.set_load()
            self.describe()
        self.untouched = False
        return self

    def publish(self, to: Published) -> None:
        """Tell somebody the configuration, now and whenever it changes."""
        self.published.append(to)
        to(self.config)

    def set_load(self) -> None:
        """Have the stand-in load for the scene's own time from its next start on."""
        if self.load_seconds is not None:
            file = f"/etc/vllm/{self.story.unit.removesuffix('.service')}.env"
            line = f"VLLM_STANDIN_LOAD_SECONDS={self.load_seconds:g}\n"
            ssh.run(self.host, "tee", "--append", file, stdin=line.encode())

    def describe(self) -> None:
        """Write the configuration and tell it, if it is another than before."""
        text = toml.config_toml(self.host, self.story) + self.extra
        text = text.replace(f"[services.{self.story.service}]", f"[services.{self.service}]")
        text = self.rewrite(text)
        if not self.config.exists() or text != self.config.read_text():
            self.config.write_text(text)
            for to in self.published:
                to(self.config)


def sweep() -> None:
    """Take away the hosts of test runs that were killed."""
    for one in hosts.list_hosts():
        found = re.fullmatch(r"t\dp(\d+)", one.name)
        if found and not Path("/proc", found[1]).exists():
            hosts.remove(one.name)


@contextmanager
def on_stage(
    number: int,
    story: Story,
    folder: Path,
    *,
    service: str = "",
    extra: str = "",
    load_seconds: float | None = None,
) -> Iterator[Scene]:
    """Have a host of this test run with a story while the block runs.

    Args:
        number: which host of the run it is.
        story: the story.
        folder: where the configuration is written.
        service: the service's name; default: the story's.
        extra: further lines of the service's table in the configuration.
        load_seconds: how long the stand-in loads; None: as the story has it.
    """
    host = prepare(f"t{number}p{os.getpid()}", story.key, say=_quiet)
    config = Path(tempfile.mkdtemp(dir=folder), "redeploy.toml")
    scene = Scene(story, host, service or story.service, config, extra, load_seconds)
    try:
        scene.set_load()
        scene.describe()
        yield scene
    finally:
        hosts.remove(host.name)


def _quiet(_message: str) -> None:
    """Say nothing: pytest shows what matters."""
