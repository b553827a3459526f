"""`redeploy diagnose --journal`: a verdict on a file, with nothing loaded that it does not need."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from tasks.diagnosis.finding import Finding, diagnose
from tasks.diagnosis.journal import read_stream
from tasks.diagnosis.symptoms import Death, Facts
from tasks.diagnosis.verdict import document, in_words, is_established
from tasks.markdown import clean

_CANNOT_TELL = 3


def diagnose_file(name: str, *, as_json: bool) -> None:
    """Read a journal from a file, or from standard input (`-`), and say what failed in it.

    Raises:
        SystemExit: 3 where it could not tell, 2 where the file could not be read.
    """
    try:
        with ExitStack() as opened:
            stream = sys.stdin.buffer
            if name != "-":
                stream = opened.enter_context(Path(name).open("rb"))
            entries, lines_read = read_stream(stream)
    except OSError as error:
        print(clean(f"{name} cannot be read: {error.strerror or error}."), file=sys.stderr)
        raise SystemExit(2) from None
    found = diagnose(entries, Facts(), Death(kind="not-asked"), lines_read=lines_read)
    tell(found, as_json=as_json)


def tell(found: Finding, *, as_json: bool) -> None:
    """Print a finding; leave with 3 where it could not tell."""
    if as_json:
        print(json.dumps(document(found), indent=2))
    else:
        print("\n".join(clean(line) for line in in_words(found)))
    if not is_established(found):
        raise SystemExit(_CANNOT_TELL)
