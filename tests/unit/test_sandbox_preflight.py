"""What a machine lacks is said, with how to get it; the lack is real, not pretended."""

import os
import subprocess
import sys

import pytest

LIST = """
import json, os, sys
from dataclasses import asdict
from deployments.sandbox.preflight import missing
os.setuid(int(sys.argv[1]))
print(json.dumps([asdict(one) for one in missing()]))
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@as_root
def test_without_root_only_root_is_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST, "65534"], capture_output=True, text=True, check=True
    )
    assert '"what": "root"' in done.stdout
    assert "sudo" in done.stdout


@as_root
def test_without_programs_the_packages_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST, "0"],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    for package in ("systemd-container", "debootstrap", "iproute2", "openssh-client"):
        assert f"apt-get install --yes --no-install-recommends {package}" in done.stdout
