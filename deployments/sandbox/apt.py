"""Reads from the machine's own apt sources which mirror and release it lives from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from deployments.sandbox.errors import SandboxError


@dataclass(frozen=True)
class Source:
    """One mirror of one release."""

    mirror: str
    suite: str
    components: tuple[str, ...]


def machine_source(etc: Path = Path("/etc")) -> Source:
    """Return the mirror that this machine installs its own release from.

    Raises:
        SandboxError: apt's sources name none.
    """
    codename = _codename((etc / "os-release").read_text())
    files = [etc / "apt/sources.list", *sorted((etc / "apt/sources.list.d").glob("*"))]
    texts = [
        path.read_text()
        for path in files
        if path.suffix in {".list", ".sources"} and path.is_file()
    ]
    found = [source for text in texts for source in (*one_line(text), *deb822(text))]
    usable = [one for one in found if one.suite == codename and one.mirror.startswith("http")]
    for source in usable:
        if "main" in source.components:
            # Ubuntu's one-line format spreads the components of one mirror over several lines
            shared = [one for one in usable if one.mirror == source.mirror]
            components = dict.fromkeys(part for one in shared for part in one.components)
            return Source(source.mirror, source.suite, tuple(components))
    raise SandboxError(
        f"No apt source of this machine offers {codename or 'its release'}.",
        "Add its mirror to /etc/apt/sources.list.",
    )


def one_line(text: str) -> list[Source]:
    """Return the sources of a file in the format `deb [options] URI SUITE COMPONENT…`."""
    lines = re.findall(r"^deb +(?:\[[^]]*\] +)?(\S+) +(\S+) +(.+)$", text, re.MULTILINE)
    return [Source(uri, suite, tuple(rest.split())) for uri, suite, rest in lines]


def deb822(text: str) -> list[Source]:
    """Return the sources of a file in the format of fields and stanzas."""
    return [source for stanza in re.split(r"\n\s*\n", text) for source in _stanza(stanza)]


def _stanza(text: str) -> list[Source]:
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    fields = {
        name.lower(): value.split()
        for name, value in re.findall(r"^([\w-]+): *(.*(?:\n[ \t].*)*)$", kept, re.MULTILINE)
    }
    if "deb" not in fields.get("types", []) or fields.get("enabled") == ["no"]:
        return []
    components = tuple(fields.get("components", ()))
    return [
        Source(uri, suite, components)
        for uri in fields.get("uris", [])
        for suite in fields.get("suites", [])
    ]


def _codename(os_release: str) -> str:
    found = re.search(r"^VERSION_CODENAME=\"?(\w+)", os_release, re.MULTILINE)
    return found[1] if found else ""
