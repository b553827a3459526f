"""What the plan finds while the old release serves: nobody is to notice that it was looked for."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deployments.sandbox.stories import STORIES
from tests.chaos.index import Index
from tests.integration import on_host
from tests.integration.conftest import QUICK
from tests.integration.in_process import redeploy, save_blocks
from tests.integration.scenes import Scene, on_stage
from tests.integration.serving import Serving
from tests.integration.steady_client import steadily_asked
from tests.wheels import wheel

pytestmark = [pytest.mark.host, pytest.mark.timeout(120)]

STORY = STORIES["small"]


@dataclass
class Site:
    """A host whose index can lack things, or have others."""

    scene: Scene
    index: Index


@pytest.fixture(scope="module")
def site(server: Serving, workshop: Path) -> Iterator[Site]:
    with on_stage(9, STORY, workshop, service="small-planned", extra=QUICK) as scene:
        index = Index(scene.host.index_url)
        scene.rewrite = lambda text: text.replace(scene.host.index_url, index.url)
        scene.describe()
        scene.publish(lambda config: save_blocks(server, config))
        yield Site(scene, index)
        index.close()


def refused(site: Site, server: Serving, **wish: object) -> str:
    """Redeploy, see that nobody noticed, and return why it was refused."""
    scene = site.scene
    before = on_host.unit(scene.host, STORY.unit)
    with steadily_asked(f"http://{scene.host.address}:{STORY.port}") as asked:
        run = redeploy(server, service=scene.service, benchmark=False, **wish)
    site.index.instead.clear()
    site.index.gone = False
    assert run.state.type == "FAILED", run.state.message
    assert asked.wrong == []
    assert asked.answers > 20
    assert on_host.unit(scene.host, STORY.unit) == before
    assert on_host.matching(scene.host, f"{STORY.environment}.*") == []
    assert on_host.locks(scene.host) == []
    return str(run.state.message)


def test_a_mirror_that_lacks_a_package(site: Site, server: Serving) -> None:
    site.index.instead["/simple/transformers/"] = None
    assert "transformers" in refused(site, server)


def test_an_index_that_dies(site: Site, server: Serving) -> None:
    site.index.gone = True
    assert "cannot be read" in refused(site, server)


def test_a_login_page_in_front_of_the_index(site: Site, server: Serving) -> None:
    site.index.instead["/metadata.json"] = b"<html><a href='/login'>Sign in</a></html>"
    assert "is not a list of wheels" in refused(site, server)


def test_a_wheel_for_another_platform(site: Site, server: Serving) -> None:
    name = f"vllm-{STORY.nightly.version}-cp38-abi3-manylinux_2_31_aarch64.whl"
    entry = {
        "package_name": "vllm",
        "version": STORY.nightly.version,
        "variant": None,
        "filename": name,
        "path": f"../../{STORY.nightly.commit}/{name.replace('+', '%2B')}",
    }
    site.index.instead["/nightly/vllm/metadata.json"] = json.dumps([entry]).encode()
    assert "no wheel for x86_64" in refused(site, server)


def test_torch_from_another_index(site: Site, server: Serving, tmp_path: Path) -> None:
    made = wheel(tmp_path, "torch", f"{installed(site)['torch']}+cpu", {"torch/__init__.py": ""})
    name = made.name.replace("+", "%2B")
    page = f'<a href="{name}">{made.name}</a>'
    site.index.instead |= {"/simple/torch/": page.encode(), f"/{name}": made.read_bytes()}
    assert "torch" in refused(site, server)


def test_a_dependency_that_no_index_has(site: Site, server: Serving) -> None:
    site.index.instead["/simple/nvidia-cutlass-dsl/"] = b"<html></html>"
    assert "nvidia-cutlass-dsl" in refused(site, server)


def installed(site: Site) -> dict[str, str]:
    return on_host.packages(site.scene.host, STORY.environment)
