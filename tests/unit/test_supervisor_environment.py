"""A real environment, made by uv from wheels of our own, read and verified by its files."""

import os
import stat
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from blocks.supervisor import environment, records, verify
from blocks.supervisor import facts as facts_of
from blocks.supervisor.environment import Owner
from blocks.supervisor.failures import Failure
from blocks.supervisor.packages import first_cause, locked_versions
from tests.wheels import wheel

UV = Path(sysconfig.get_path("scripts"), "uv")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """An environment with two packages, one of them with a script."""
    source = {"serve/__init__.py": "x = 1\n", "serve/model.py": "def f():\n    return 1\n"}
    wheels = [
        wheel(tmp_path, "serve", "1.0", source, requires="lib_one==2", scripts="serve = serve:f"),
        wheel(tmp_path, "lib_one", "2", {"lib_one.py": "y = 2\n"}),
    ]
    path = tmp_path / "env"
    offline = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_OFFLINE": "1"}
    for command in (
        ["venv", str(path), "--python", sys.executable],
        ["pip", "install", "--no-index", "--python", f"{path}/bin/python", *map(str, wheels)],
    ):
        subprocess.run([UV, *command], env=offline, check=True, capture_output=True)
    return path


def inside(path: Path, name: str) -> Path:
    return environment.site_packages(path)[0] / name


def test_packages_are_read_from_their_metadata(made: Path) -> None:
    found = {one["name"]: one for one in environment.packages(made)}
    assert environment.versions(made) == {"serve": "1.0", "lib-one": "2"}
    assert found["serve"]["requires"] == ["lib_one==2"]
    assert found["serve"]["installer"] == "uv"
    assert str(found["serve"]["origin"]).startswith("file://")


def test_facts_of_an_environment(made: Path) -> None:
    facts = environment.facts(str(made))
    assert facts["exists"]
    assert facts["python_version"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["free_bytes"] > 0
    assert environment.used_bytes(made) > 0
    assert environment.facts(f"{made}.none") == {
        "path": f"{made}.none",
        "exists": False,
        "packages": [],
    }


def test_an_environment_that_does_not_answer_is_a_problem_and_not_a_wait(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_of, "_ENVIRONMENT_SECONDS", 0.5)
    metadata = next(made.glob("lib/python3*/site-packages/serve-1.0.dist-info")) / "METADATA"
    text = metadata.read_text()
    metadata.unlink()
    os.mkfifo(metadata)  # whoever opens it waits, as on a dead file server
    found, uv = facts_of.environment_and_uv(str(made))
    assert (found["exists"], found["packages"], uv) == (False, [], None)
    assert found["problem"] == f"{made} did not answer within 0.5 s"
    metadata.unlink()
    metadata.write_text(text)
    found, uv = facts_of.environment_and_uv(str(made))
    assert (found["exists"], found["problem"]) == (True, None)
    assert found["used_bytes"] == environment.used_bytes(made)


def test_a_size_that_cannot_be_told_in_time_is_unknown(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_of, "_SIZE_SECONDS", 0.2)
    monkeypatch.setattr(environment, "used_bytes", lambda _: time.sleep(60))
    found, _ = facts_of.environment_and_uv(str(made))
    assert (found["exists"], found["used_bytes"]) == (True, None)
    assert "its size is not known" in found["problem"]


def test_one_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    assert facts_of.environment_and_uv(path) == (
        {"path": path, "exists": False, "packages": [], "problem": None},
        None,
    )


def test_a_package_tells_where_it_came_from_without_credentials(made: Path) -> None:
    info = next(made.glob("lib/python3*/site-packages/serve-1.0.dist-info"))
    (info / "direct_url.json").write_text('{"url": "https://me:pw@x.example/serve.whl"}')
    found = {one["name"]: one for one in environment.packages(made)}
    assert found["serve"]["origin"] == "https://***@x.example/serve.whl"


def test_a_fresh_one_is_as_recorded(made: Path) -> None:
    compared = records.compare(made)
    assert (compared.differing, compared.missing) == ([], [])
    assert compared.checked >= 8
    assert records.unrecorded_sources(made, compared.recorded) in (
        [],
        [str(inside(made, "_virtualenv.py"))],
    )


def test_differing_missing_and_unrecorded_files_are_found(made: Path) -> None:
    inside(made, "serve/model.py").write_text("torch.save(1)\n")
    inside(made, "lib_one.py").unlink()
    extra = inside(made, "serve/extra.py")
    extra.write_text("\nNOMLA_SAVE = 1\n")
    compared = records.compare(made)
    assert compared.differing == [str(inside(made, "serve/model.py"))]
    assert compared.missing == [str(inside(made, "lib_one.py"))]
    assert str(extra) in records.unrecorded_sources(made, compared.recorded)
    assert verify.find_markers([str(extra)], ["NOMLA_SAVE"]) == [
        {"file": str(extra), "line": 2, "marker": "NOMLA_SAVE"}
    ]


def test_a_pipe_in_place_of_a_file_differs_and_does_not_hang(made: Path) -> None:
    inside(made, "lib_one.py").unlink()
    os.mkfifo(inside(made, "lib_one.py"))
    assert records.compare(made).differing == [str(inside(made, "lib_one.py"))]


def test_byte_code_and_scripts_are_the_installers_own(made: Path) -> None:
    script = made / "bin" / "serve"
    assert script.read_bytes().startswith(b"#!")
    script.write_text("#!/moved/python\n")
    subprocess.run([made / "bin" / "python", "-m", "compileall", "-q", made], check=True)
    assert records.compare(made).differing == []


def test_a_link_is_not_an_environment(made: Path) -> None:
    link = made.with_name("link")
    link.symlink_to(made)
    for path in (link, made.with_name("none"), made / "bin"):
        with pytest.raises(Failure):
            environment.require(str(path))
    assert environment.require(str(made)) == made


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_what_others_own_is_given_to_the_owner_but_never_through_a_link(made: Path) -> None:
    outside = made.with_name("outside")
    outside.write_text("")
    cache = inside(made, "serve/__pycache__")
    cache.mkdir(exist_ok=True)
    (cache / "link").symlink_to(outside)
    owner = Owner("nobody", 65534, 65534, "/")
    assert environment.give_to(owner, made) > 5
    assert cache.stat().st_uid == 65534
    assert (cache / "link").lstat().st_uid == 65534
    assert outside.stat().st_uid == 0
    assert environment.give_to(owner, made) == 0
    assert stat.S_ISLNK((cache / "link").lstat().st_mode)


def test_versions_of_a_lock() -> None:
    lock = (
        "flashinfer-python==0.6.4 \\\n    --hash=sha256:aa\n    # via vllm\n"
        "Torch[opt]==2.13.0+cpu ; python_version > '3'\n"
        "vllm @ https://x.example/a/vllm-0.16.0rc2.dev344%2Bgea5f903f8-cp38-abi3-linux.whl \\\n"
        "    --hash=sha256:bb\n"
    )
    assert locked_versions(lock) == {
        "flashinfer-python": "0.6.4",
        "torch": "2.13.0+cpu",
        "vllm": "0.16.0rc2.dev344+gea5f903f8",
    }


def test_not_as_locked() -> None:
    assert verify.not_as_locked({"A_b": "1", "c": "2", "d": "3"}, {"a-b": "1", "c": "9"}) == [
        {"name": "c", "locked": "2", "installed": "9"},
        {"name": "d", "locked": "3", "installed": None},
    ]


def test_forbidden_keys_are_found_at_any_depth() -> None:
    config: dict[str, object] = {
        "kv_cache_scheme": None,
        "q": {"layers": [{"kv_cache_scheme": {}}]},
        "x": 1,
    }
    assert verify.keys_in(config, ["kv_cache_scheme"]) == [
        "kv_cache_scheme",
        "q.layers[0].kv_cache_scheme",
    ]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (
            "error: No solution found when resolving dependencies\n  cause: Because transformers "
            "was not found in the package registry and vllm==1 depends on transformers, we can "
            "conclude that vllm==1 cannot be used.\n      And because only vllm==1 is ...",
            "Because transformers was not found in the package registry and vllm==1 depends on "
            "transformers.",
        ),
        (
            "  x No solution found when resolving dependencies:\n  ╰─▶ Because a==1 needs\n"
            "      b>2, we can conclude that your requirements are unsatisfiable.",
            "Because a==1 needs b>2.",
        ),
        ("error: Request failed after 3 retries", "error: Request failed after 3 retries"),
    ],
)
def test_of_uvs_words_it_is_the_first_cause(words: str, cause: str) -> None:
    assert first_cause(words) == cause
