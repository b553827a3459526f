"""The wheel index, read from a real server that serves what the real generator wrote."""

import functools
import json
import pickle
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tasks.packages.index import Wheel, choose, find_wheel, wheel_at, wheel_urls
from tasks.packages.pages import Entry, NoWheel, parse_page, parse_simple_page

CASES = Path(__file__).parent.parent / "cases" / "index"
COMMIT = "ea5f903f8aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
VERSION = "0.16.0rc2.dev344+gea5f903f8"
PAGE = "https://wheels.example/nightly/vllm/metadata.json"


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(CASES)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=5) as client:
        yield client


def find(client: httpx.Client, base: str, target: str, variant: str | None = None) -> Wheel:
    return find_wheel(
        client,
        base,
        target,
        machine="x86_64",
        python="3.12.3",
        distribution="vllm",
        variant=variant,
    )


def entry(filename: str, **changes: object) -> Entry:
    name, version = filename.split("-")[:2]
    values = {
        "package_name": name,
        "version": version,
        "variant": None,
        "filename": filename,
        "path": f"../../{COMMIT}/{filename.replace('+', '%2B')}",
    }
    return Entry.model_validate({**values, **changes})


def choose_from(*entries: Entry, target: str = "nightly", **changes: str | None) -> Wheel:
    machine = changes.get("machine") or "x86_64"
    python = changes.get("python") or "3.12"
    return choose(
        entries,
        page_url=PAGE,
        target=target,
        machine=machine,
        python=python,
        variant=changes.get("variant"),
    )


def test_the_nightly(client: httpx.Client, base: str) -> None:
    wheel = find(client, base, "nightly")

    assert wheel == Wheel(
        name="vllm",
        version=VERSION,
        commit=COMMIT,
        variant=None,
        filename=f"vllm-{VERSION}-cp38-abi3-manylinux_2_31_x86_64.whl",
        url=f"{base}/{COMMIT}/vllm-0.16.0rc2.dev344%2Bgea5f903f8-cp38-abi3-manylinux_2_31_x86_64.whl",
        tags=("cp38-abi3-manylinux_2_31_x86_64",),
    )


@pytest.mark.parametrize(
    ("variant", "version"),
    [("cu129", VERSION), ("cu130", f"{VERSION}.cu130"), ("cpu", f"{VERSION}.cpu")],
)
def test_a_variant(client: httpx.Client, base: str, variant: str, version: str) -> None:
    wheel = find(client, base, "nightly", variant)

    assert (wheel.variant, wheel.version, wheel.commit) == (variant, version, COMMIT)
    assert wheel.url.startswith(f"{base}/{COMMIT}/vllm-")


def test_an_exact_nightly_is_found_among_the_nightlies(client: httpx.Client, base: str) -> None:
    assert find(client, base, VERSION).version == VERSION


def test_another_nightly_is_not(client: httpx.Client, base: str) -> None:
    with pytest.raises(NoWheel, match=r"no 0\.16\.0rc2\.dev345\+g0123abc; it has vllm-") as refusal:
        find(client, base, "0.16.0rc2.dev345+g0123abc")

    assert refusal.value.why == "target"
    assert refusal.value.offered == (f"vllm-{VERSION}-cp38-abi3-manylinux_2_31_x86_64.whl",)


@pytest.mark.parametrize("variant", [None, "cu129", "cu130"])
def test_a_mirror_that_has_pep_503_pages_alone(
    client: httpx.Client, base: str, variant: str | None
) -> None:
    found = find(client, f"{base}/pages", "nightly", variant)
    described = find(client, base, "nightly", variant)
    assert found.model_dump(exclude={"url"}) == described.model_dump(exclude={"url"})
    assert found.url == described.url.replace(base, f"{base}/pages")


def test_the_beginning_of_a_commit_is_found_among_the_nightlies(
    client: httpx.Client, base: str
) -> None:
    assert find(client, base, COMMIT[:9]).commit == COMMIT


FILE = f"vllm-{VERSION}-cp38-abi3-manylinux_2_31_x86_64.whl"
OTHER = f"vllm-{VERSION}.cu130-cp38-abi3-manylinux_2_35_x86_64.whl"


def test_of_a_page_with_all_builds_the_default_one_is_the_one_without_a_variant() -> None:
    links = "".join(f'<a href="{one.replace("+", "%2B")}">{one}</a>' for one in (OTHER, FILE))
    listed = parse_simple_page(links, PAGE, "vllm")
    assert choose_from(*listed).filename == FILE
    assert choose_from(*listed, variant="cu130").filename == OTHER


def test_a_withdrawn_file_is_not_taken() -> None:
    link = f'<a href="{FILE}" data-yanked="it crashes">{FILE}</a>'
    with pytest.raises(NoWheel, match="was withdrawn: it crashes") as refusal:
        choose_from(*parse_simple_page(link, PAGE, "vllm"))
    assert refusal.value.why == "yanked"


@pytest.mark.parametrize(
    "text", ["<a href='/login'>Sign in</a>", "", "<a href='vllm-1.tar.gz'>vllm-1.tar.gz</a>"]
)
def test_a_page_without_a_wheel_is_no_index(text: str) -> None:
    with pytest.raises(NoWheel, match="is not a list of wheels"):
        parse_simple_page(text, PAGE, "vllm")


@pytest.mark.parametrize("target", ["0.16.0", COMMIT])
def test_what_the_index_does_not_have(client: httpx.Client, base: str, target: str) -> None:
    with pytest.raises(NoWheel, match="has nothing at") as refusal:
        find(client, base, target)

    assert refusal.value.why == "not-there"
    assert refusal.value.url == f"{base}/{target}/vllm/metadata.json"


def test_nobody_answers(client: httpx.Client) -> None:
    with pytest.raises(NoWheel, match="cannot be read") as refusal:
        find(client, "http://127.0.0.1:9", "nightly")

    assert refusal.value.why == "unreachable"


@pytest.mark.parametrize(
    "text", ["<!DOCTYPE html><title>Sign in</title>", "", "{}", '[{"version": "1"}]', "null"]
)
def test_a_page_that_is_no_index(text: str) -> None:
    with pytest.raises(NoWheel, match="is not a list of wheels") as refusal:
        parse_page(text, PAGE)

    assert refusal.value.why == "not-an-index"


def test_urls_of_each_kind_of_target() -> None:
    assert wheel_urls("https://w.example/", "nightly", "cu130") == (
        "https://w.example/nightly/cu130/vllm/metadata.json",
    )
    assert wheel_urls("https://w.example", "v0.16.0", None, "vllm-cpu") == (
        "https://w.example/0.16.0/vllm-cpu/metadata.json",
    )
    assert wheel_urls("https://w.example", "0.16.0rc2.dev344+gea5f903f8", None) == (
        "https://w.example/0.16.0rc2.dev344%2Bgea5f903f8/vllm/metadata.json",
        "https://w.example/ea5f903f8/vllm/metadata.json",
        "https://w.example/nightly/vllm/metadata.json",
    )


def test_a_commit_is_checked_against_the_wheel() -> None:
    wheel = entry(f"vllm-{VERSION}-cp38-abi3-manylinux_2_31_x86_64.whl")

    assert choose_from(wheel, target="ea5f903f8").commit == COMMIT
    with pytest.raises(NoWheel, match="no ffff903f8"):
        choose_from(wheel, target="ffff903f8")


def test_a_wheel_in_the_folder_of_another_commit() -> None:
    wheel = entry("vllm-0.16.0rc2.dev1+g0123abc-cp38-abi3-manylinux_2_31_x86_64.whl")

    with pytest.raises(NoWheel, match="contradicts itself"):
        choose_from(wheel)


@pytest.mark.parametrize(
    ("tags", "machine", "python", "fits"),
    [
        ("cp38-abi3-manylinux_2_31_x86_64", "x86_64", "3.12", True),
        ("cp38-abi3-manylinux_2_31_x86_64", "aarch64", "3.12", False),
        ("cp38-abi3-manylinux_2_31_x86_64", "x86_64", "3.7", False),
        ("cp312-cp312-manylinux1_x86_64.manylinux_2_5_x86_64", "x86_64", "3.12.3", True),
        ("cp312-cp312-manylinux_2_31_x86_64", "x86_64", "3.11", False),
        ("py3-none-any", "aarch64", "3.11", True),
        ("cp38-abi3-win_amd64", "x86_64", "3.12", False),
    ],
)
def test_platforms(tags: str, machine: str, python: str, fits: bool) -> None:
    wheel = entry(f"vllm-{VERSION}-{tags}.whl")

    if fits:
        assert choose_from(wheel, machine=machine, python=python).version == VERSION
    else:
        with pytest.raises(NoWheel, match=f"no wheel for {machine}, Python") as refusal:
            choose_from(wheel, machine=machine, python=python)
        assert refusal.value.why == "platform"


def at(place: str, distribution: str = "vllm") -> Wheel:
    return wheel_at(place, distribution, machine="x86_64", python="3.12")


def test_a_wheel_named_by_its_place() -> None:
    found = at(f"https://h/{COMMIT}/{OTHER}")
    assert (found.version, found.commit, found.variant) == (f"{VERSION}.cu130", COMMIT, "cu130")
    on_host = at(f"/srv/wheels/{FILE}")
    assert (on_host.version, on_host.filename) == (VERSION, FILE)
    assert on_host.url == f"file:///srv/wheels/{FILE.replace('+', '%2B')}"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/srv/vllm.whl", "not-an-index"),
        ("/srv/torch-2-py3-none-any.whl", "target"),
        ("https://h/vllm-1-cp310-cp310-linux_aarch64.whl", "platform"),
    ],
)
def test_a_place_that_is_not_it(place: str, why: str) -> None:
    with pytest.raises(NoWheel) as refusal:
        at(place)
    assert refusal.value.why == why


def test_the_newest_of_several() -> None:
    older = entry("vllm-0.16.0rc2.dev9+gea5f903f8-py3-none-any.whl")
    newer = entry("vllm-0.16.0rc2.dev10+gea5f903f8-py3-none-any.whl")

    assert choose_from(newer, older).version == "0.16.0rc2.dev10+gea5f903f8"


def test_a_build_that_is_not_there() -> None:
    with pytest.raises(NoWheel, match=r"no build \(default\)") as refusal:
        choose_from(entry(f"vllm-{VERSION}.cpu-py3-none-any.whl", variant="cpu"))

    assert refusal.value.why == "variant"


@pytest.mark.parametrize(
    "changes", [{"path": "file:///etc/vllm-1-py3-none-any.whl"}, {"path": "../vllm.tar.gz"}]
)
def test_a_hostile_or_broken_entry(changes: dict[str, object]) -> None:
    with pytest.raises(NoWheel) as refusal:
        choose_from(entry("vllm-1-py3-none-any.whl", **changes))

    assert refusal.value.why == "not-an-index"


def test_a_refusal_survives_being_stored() -> None:
    error = NoWheel("target", "no such wheel", url=PAGE, hint="wait", offered=["a"])

    again = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert (again.why, again.url, again.offered, str(again)) == ("target", PAGE, ("a",), str(error))


def test_every_case_is_what_the_generator_writes() -> None:
    pages = sorted(CASES.rglob("metadata.json"))

    assert len(pages) == 4
    for page in pages:
        assert len(json.loads(page.read_text())) == len(parse_page(page.read_text(), PAGE)) == 1
