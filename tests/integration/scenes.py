"""A story on a real host, put back to its beginning for every test that changes it."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deployments.sandbox import hosts, toml
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
        config: the `redeploy.toml` for it.
    """

    story: Story
    host: SandboxHost
    config: Path
    extra: str = ""
    published: list[Published] = field(default_factory=list)
    untouched: bool = True

    @property
    def service(self) -> str:
        """The name of the service in the configuration."""
        return self.story.service

    @property
    def url(self) -> str:
        """Where the service is reached on its own host."""
        return f"http://127.0.0.1:{self.story.port}"

    def fresh(self) -> "Scene":
        """Put the host back to the story's beginning if a test has touched it since."""
        if not self.untouched:
            self.host = prepare(self.host.name, self.story.key, say=_quiet)
            self._describe()
        self.untouched = False
        return self

    def publish(self, to: Published) -> None:
        """Tell somebody the configuration, now and whenever it changes."""
        self.published.append(to)
        to(self.config)

    def _describe(self) -> None:
        text = toml.config_toml(self.host, self.story) + self.extra
        if text != self.config.read_text():
            self.config.write_text(text)
            for to in self.published:
                to(self.config)


def stage(name: str, story: Story, folder: Path, extra: str = "") -> Scene:
    """Boot a host of that name with a story.

    Args:
        name: the host's name; a host of that name that was left over is replaced.
        story: the story.
        folder: where the configuration is written.
        extra: further lines of the service's table in it.
    """
    host = prepare(name, story.key, say=_quiet)
    config = Path(tempfile.mkdtemp(dir=folder), "redeploy.toml")
    config.write_text(toml.config_toml(host, story) + extra)
    return Scene(story, host, config, extra)


def strike(scene: Scene) -> None:
    """Take the host away again, by its own name."""
    hosts.remove(scene.host.name)


def _quiet(_message: str) -> None:
    """Say nothing: pytest shows what matters."""
