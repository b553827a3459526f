"""`redeploy diagnose --journal`: any shape of journal, however damaged, and nothing else loaded."""

import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.diagnosis.finding import Finding, diagnose
from tasks.diagnosis.journal import read_stream
from tasks.diagnosis.symptoms import Death, Facts
from tasks.diagnosis.verdict import document, in_words, is_established

ROOT = Path(__file__).parents[2]
REPORTED = ROOT / "tests" / "cases" / "diagnosis" / "reported"
LOG = (REPORTED / "flashinfer-cubin-skew.log").read_bytes()


def found(raw: bytes) -> Finding:
    entries, lines = read_stream(io.BytesIO(raw))
    return diagnose(entries, Facts(), Death(kind="not-asked"), lines_read=lines)


def as_json(raw: bytes) -> bytes:
    lines = []
    for line in raw.decode().splitlines():
        _, _, who, message = line.split(" ", 3)
        name, _, pid = who.rstrip(":").rstrip("]").partition("[")
        fields = {"SYSLOG_IDENTIFIER": name, "_PID": pid or "1", "MESSAGE": list(message.encode())}
        lines.append(json.dumps(fields, separators=(",", ":")))
    return "\n".join(lines).encode()


SHAPES = {
    "as it is": LOG,
    "CRLF": LOG.replace(b"\n", b"\r\n"),
    "ANSI": LOG.replace(b"ERROR", b"\x1b[31mERROR\x1b[0m"),
    "bytes lists": as_json(LOG),
    "invalid UTF-8": LOG.replace(b"INFO", b"IN\xff\xfeFO"),
    "repeated": LOG * 3,
    "a long line before": b"x" * 10_000_000 + b"\n" + LOG,
    "a long line after": LOG + b"y" * 10_000_000,
    "noise before": b"INFO: all is well\n" * 300_000 + LOG,
    "noise after": LOG + b"INFO: all is well\n" * 300_000,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_verdict_is_the_same_in_every_shape(shape: str) -> None:
    finding = found(SHAPES[shape])

    assert finding.rule == "flashinfer-cubin-skew"
    assert finding.root_cause is not None
    assert finding.root_cause.process == "EngineCore"


@pytest.mark.parametrize("seed", range(40))
def test_damage_gives_a_verdict_or_that_nobody_can_tell(seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311
    logs = sorted(REPORTED.glob("*.log"))
    raw = bytearray(chosen.choice(logs).read_bytes())
    for _ in range(chosen.randrange(200)):
        raw[chosen.randrange(len(raw))] = chosen.randrange(256)
    cut = bytes(raw[chosen.randrange(len(raw)) : chosen.randrange(len(raw))])

    for damaged in (bytes(raw), cut, b""):
        finding = found(damaged)
        assert json.loads(json.dumps(document(finding))).keys() == {"healthy", "findings"}
        assert in_words(finding)
        assert finding.healthy or finding.root_cause or not is_established(finding)


@pytest.mark.parametrize("version", ["0.6.3; reboot", "$(reboot)", "0.6.3 --index x", "-r/etc/x"])
def test_hostile_versions_reach_no_command(version: str) -> None:
    remedy = found(LOG.replace(b"(0.6.4)", f"({version})".encode())).remedy

    assert remedy is None or remedy.commands == ()


def test_it_says_that_it_cannot_tell() -> None:
    finding = found(b"")

    assert not is_established(finding)
    assert not finding.healthy


def test_as_a_process_it_loads_nothing_heavy() -> None:
    source = (
        "import sys\nfrom deployments.cli import main\n"
        f"try: main(['diagnose', '--journal', {str(REPORTED / 'port-in-use.log')!r}, '--json'])\n"
        "except SystemExit as end: print(end.code, file=sys.stderr)\n"
        "print([m for m in ('prefect', 'fabric', 'httpx') if m in sys.modules], file=sys.stderr)"
    )
    argv = [sys.executable, "-c", source]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["findings"][0]["rule"] == "port-in-use"
    assert done.stderr.splitlines()[-1] == "[]"
