"""A log is hostile text: in the terminal, in JSON and on a page it is shown, and nothing more."""

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from deployments import read_journal, terminal
from tasks import report
from tasks.diagnosis.finding import Finding, diagnose
from tasks.diagnosis.journal import from_supervisor, read_stream
from tasks.diagnosis.symptoms import Death, Facts
from tasks.diagnosis.verdict import document
from tasks.errors import StepFailed
from tasks.release import AttemptRecord

HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[1;1H",
    "C1": "\x9b31mred\x9d0;owned\x9c",
    "direction": "\u202egnp.exe\u2066",
    "returns": "harmless\rRuntimeError: nothing here",
    "Rich": "[bold red]owned[/] [link=https://elsewhere.example]here[/link] [/]",
    "open Rich": "[/bold] [blink",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "Markdown": "# head ![x](https://elsewhere.example/x.png) [y](javascript:alert(1)) | a | b |",
    "fence": "``` ~~~ ```` <details>",
    "long": "x" * 3_000_000,
    "long words": "[red] " * 200_000,
}
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def log(text: str) -> bytes:
    """A failure that says it, with the text in all places that are shown."""
    lines = (
        f"(EngineCore pid=7) ERROR 12-01 12:00:00 [core.py:1] {text}",
        "(EngineCore pid=7) ERROR 12-01 12:00:00 [core.py:1] Traceback (most recent call last):",
        f'(EngineCore pid=7) ERROR 12-01 12:00:00 [core.py:1]   File "/v/{text[:200]}.py", line 1, '
        f"in {text[:200]}",
        f"(EngineCore pid=7) ERROR 12-01 12:00:00 [core.py:1] RuntimeError: it broke {text}",
        f"(APIServer pid=5) RuntimeError: Engine core initialization failed. {text}",
    )
    return "\n".join(lines).encode()


def found(text: str) -> Finding:
    entries, lines = read_stream(io.BytesIO(log(text)))
    return diagnose(entries, Facts(), Death(kind="not-asked"), lines_read=lines)


def of_live(text: str) -> Finding:
    raw = [{"message": line} for line in log(text).decode().split("\n")]
    return diagnose(from_supervisor(raw), Facts(), Death(kind="crashed"))


@pytest.mark.parametrize("ask", [found, of_live])
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_terminal_obeys_nothing(
    kind: str, ask: Callable[[str], Finding], capsys: pytest.CaptureFixture[str]
) -> None:
    read_journal.tell(ask(HOSTILE[kind]), as_json=False)
    shown = capsys.readouterr().out

    assert not _OBEYED.search(shown)
    assert ("nothing here" if kind == "returns" else "it broke") in shown
    assert len(shown) < 10_000


@pytest.mark.parametrize("kind", HOSTILE)
def test_json_is_ascii_and_holds_the_line(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    finding = found(HOSTILE[kind])
    read_journal.tell(finding, as_json=True)
    shown = capsys.readouterr().out

    assert shown.isascii()
    assert "\x1b" not in shown
    assert json.loads(shown) == document(finding)
    assert len(shown) < 20_000


def pages(kind: str) -> list[str]:
    finding, text = of_live(HOSTILE[kind]), HOSTILE[kind]
    failure = StepFailed("wait-healthy", "crashed", f"It crashed: {text}", last_lines=[text])
    cause = finding.root_cause.text[:2000] if finding.root_cause else None
    attempt = AttemptRecord(
        number=1, outcome="failed", failure=failure.message, cause=cause, last_lines=[text]
    )
    return [report.diagnosis_page(finding, failure), report.attempts_page([attempt])]


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_page_is_made_of_our_own_parts_only(kind: str) -> None:
    for page in pages(kind):
        html = MarkdownIt("commonmark").enable("table").render(page)
        assert not _OBEYED.search(page)
        assert html.count("<h1>") <= 1
        assert not re.search(r"<(?:script|img|a|details|iframe)\b", html)
        for head in re.findall(r"<h2>(.*?)</h2>", html):
            assert head in ("Evidence", "All that was said", "The last lines")


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_report_of_a_run_takes_no_markup(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    console = Console(file=told, force_terminal=True, color_system="truecolor", width=200)
    monkeypatch.setattr(terminal, "out", console)
    text = HOSTILE[kind][:5000]
    given: dict[str, Any] = {"cause": text, "failure": text, "advice": text, "last_lines": [text]}
    healthy = AttemptRecord(number=2, outcome="healthy", remarks=[text])
    failed = AttemptRecord(number=1, outcome="failed", failed_step="start", **given)
    cured = failed.model_copy(update={"remedy": [text], "rule": "r"})

    console.print(terminal.attempts([failed, cured, healthy]))

    shown = re.sub(r"\x1b\[[0-9;]*m", "", told.getvalue())
    assert not _OBEYED.search(shown)
    assert "\x1b]8" not in told.getvalue()
    if kind == "Rich":
        assert "[bold red]owned[/]" in shown
