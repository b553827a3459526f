"""The stand-in wheels and their index: valid, repeatable, and resolved as the story says."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from deployments.sandbox import apt, catalog, layout, network
from deployments.sandbox.catalog import Release
from deployments.sandbox.errors import SandboxError
from deployments.sandbox.preflight import find_uv
from deployments.sandbox.static_files import Server
from deployments.sandbox.stories import KIMI, STORIES, Story
from deployments.sandbox.wheels import Wheel, build, digest

RELEASES = [release for story in STORIES.values() for release in (story.old, story.nightly)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve all indexes; yield the server's URL and the folder."""
    folder = tmp_path_factory.mktemp("index")
    layout.publish(folder)
    with Server("127.0.0.1", 0, str(folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@pytest.mark.parametrize(
    "wheel",
    [catalog.vllm(KIMI.nightly), catalog.flashinfer("1.0"), catalog.filler("Some.Thing", "2")],
    ids=lambda wheel: wheel.name,
)
def test_record_lists_every_file_with_its_digest(wheel: Wheel) -> None:
    built = build(wheel)
    archive = zipfile.ZipFile(io.BytesIO(built.data))
    record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    rows = {
        path: (hashed, size)
        for path, hashed, size in csv.reader(io.StringIO(archive.read(record).decode()))
    }
    assert rows.keys() == set(archive.namelist())
    assert rows.pop(record) == ("", "")
    for path, (hashed, size) in rows.items():
        data = archive.read(path)
        assert (hashed, size) == (digest(data), str(len(data)))


def test_the_same_input_gives_the_same_bytes() -> None:
    assert build(catalog.vllm(KIMI.old)).sha256 == build(catalog.vllm(KIMI.old)).sha256


def test_every_package_says_that_it_is_a_stand_in() -> None:
    for name, version in catalog.packages(KIMI.nightly).items():
        wheel = catalog.wheel(KIMI.nightly, name, version)
        assert wheel.summary == f"Stand-in for tests; not the real {name}"


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_clean_wheels_have_no_marker(story: Story) -> None:
    for data in catalog.vllm(story.nightly).files.values():
        assert not [marker for marker in story.markers if marker.encode() in data]


def test_the_story_moves_163_packages_and_says_nothing_of_cubin() -> None:
    old, new = catalog.packages(KIMI.old), catalog.packages(KIMI.nightly)
    assert len(old) == len(new) == 163
    assert "flashinfer-cubin" not in new
    assert (old["sentry-sdk"], new["sentry-sdk"]) == ("3.0.0a7", "2.53.0")
    assert (old["flashinfer-python"], new["flashinfer-python"]) == ("0.6.3", "0.6.4")
    unchanged = [name for name in new if new[name] == old[name]]
    assert 100 < len(unchanged) < 150


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_uv_resolves_the_nightly_to_exactly_its_packages(
    index: tuple[str, Path], story: Story
) -> None:
    base = "/".join(filter(None, (index[0], story.index_path)))
    argv = [
        *(str(find_uv()), "pip", "compile", "-", "--no-config", "--no-cache", "--generate-hashes"),
        *("--python-version", "3.11", "--no-annotate", "--no-header"),
        *("--default-index", f"{base}/simple", "--index", f"{base}/wheels/nightly"),
    ]
    asked = f"vllm=={story.nightly.version}\n"
    done = subprocess.run(argv, input=asked, capture_output=True, text=True, check=True)
    found = dict(re.findall(r"^(\S+)==(\S+)", done.stdout, re.MULTILINE))
    assert found == catalog.packages(story.nightly)
    assert done.stdout.count("--hash=sha256:") >= len(found)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_metadata_leads_to_the_wheel(index: tuple[str, Path], release: Release) -> None:
    url, _ = index
    story = next(one for one in STORIES.values() if release in (one.old, one.nightly))
    base = "/".join(filter(None, (url, story.index_path, "wheels")))
    places = [release.commit] + (["nightly"] if release is story.nightly else [])
    for place in places:
        for variant in ("", "cu130/"):
            page = f"{base}/{place}/{variant}vllm/metadata.json"
            [described] = httpx.get(page).json()
            assert described["version"] == release.version
            assert described["variant"] == (variant.rstrip("/") or None)
            assert release.commit in described["path"]
            wheel = httpx.URL(page).join(described["path"])
            assert httpx.get(wheel).status_code == 200
            assert unquote(wheel.path).endswith(described["filename"])


def test_the_nightly_index_has_the_layout_of_the_real_one(index: tuple[str, Path]) -> None:
    nightly = index[1] / "wheels" / "nightly"
    assert {path.name for path in nightly.iterdir()} == {"index.html", "vllm", "cu130"}
    assert {path.name for path in (nightly / "vllm").iterdir()} == {"index.html", "metadata.json"}
    described = json.loads((nightly / "vllm/metadata.json").read_text())[0]
    assert set(described) == {
        *("package_name", "version", "build_tag", "python_tag", "abi_tag", "platform_tag"),
        *("variant", "filename", "path"),
    }


def test_dumps_add_up_to_what_the_story_says() -> None:
    for story in STORIES.values():
        sizes = layout.dumps(story)
        assert len(sizes) == story.debug_files.count
        assert sum(sizes.values()) == story.debug_files.total_bytes
        assert min(sizes.values()) > 0


def test_reads_both_formats_of_apt_sources() -> None:
    stanza = (
        "Types: deb\n# a remark\nURIs: http://m/debian\n"
        "Suites: bookworm bookworm-updates\nComponents: main contrib\n"
    )
    line = "deb [signed-by=/k.gpg arch=amd64] http://m/debian bookworm main contrib\n"
    wanted = apt.Source("http://m/debian", "bookworm", ("main", "contrib"))
    assert apt.deb822(stanza)[0] == wanted
    assert apt.one_line(line) == [wanted]
    assert apt.deb822(stanza + "Enabled: no\n") == []


def test_the_machines_mirror_has_the_components_of_all_its_lines(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('VERSION_ID="22.04"\nVERSION_CODENAME=jammy\n')
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "apt/sources.list").write_text(
        "deb http://m/ubuntu jammy main restricted\ndeb http://m/ubuntu jammy-updates main\n"
        "deb http://m/ubuntu jammy universe\ndeb http://other/ppa jammy main\n"
    )
    wanted = apt.Source("http://m/ubuntu", "jammy", ("main", "restricted", "universe"))
    assert apt.machine_source(tmp_path) == wanted
    (tmp_path / "apt/sources.list").write_text("deb http://other/debian bookworm main\n")
    with pytest.raises(SandboxError, match="No apt source"):
        apt.machine_source(tmp_path)


def test_addresses_are_given_out_from_the_lowest() -> None:
    assert network.free_address({"10.77.0.11", "10.77.0.13"}) == "10.77.0.12"
    assert network.hardware_address("10.77.0.11") == "02:00:0a:4d:00:0b"
