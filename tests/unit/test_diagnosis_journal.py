"""A journal, whoever kept it."""

import json

from tasks.diagnosis.journal import (
    Entry,
    from_json,
    from_short_iso,
    from_supervisor,
    read,
)


def test_the_supervisors_entries() -> None:
    (entry,) = from_supervisor(
        [
            {
                "time": 1.5,
                "pid": 7,
                "comm": "vllm",
                "identifier": "vllm",
                "unit": "vllm.service",
                "priority": 6,
                "invocation": "abc",
                "message": "\x1b[31mhello\x1b[0m",
            }
        ]
    )

    assert entry == Entry(1, "hello", 1.5, 7, "vllm", "vllm", "vllm.service", "abc")


def test_json_with_a_message_in_bytes() -> None:
    line = json.dumps(
        {
            "MESSAGE": list("0%\r 50%\r100% é\r".encode()),
            "__REALTIME_TIMESTAMP": "1700000000500000",
            "_PID": "42",
            "_COMM": "vllm",
            "SYSLOG_IDENTIFIER": "vllm",
            "_SYSTEMD_UNIT": "vllm.service",
            "_SYSTEMD_INVOCATION_ID": "abc",
        }
    )

    (entry,) = from_json(line)

    assert entry == Entry(1, "100% é", 1700000000.5, 42, "vllm", "vllm", "vllm.service", "abc")


def test_systemds_own_lines_belong_to_the_unit_they_are_about() -> None:
    line = {"MESSAGE": "Started x.", "_SYSTEMD_UNIT": "init.scope", "UNIT": "x.service"}

    assert from_json(json.dumps(line))[0].unit == "x.service"


def test_a_message_of_null_or_broken_json_is_still_an_entry() -> None:
    entries = from_json('{"MESSAGE": null}\nnot json\n[]')

    assert [(entry.number, entry.message) for entry in entries] == [(1, ""), (2, "not json")]


def test_short_iso() -> None:
    text = (
        "2026-11-20T10:11:34+0000 gpu01 systemd[1]: vllm.service: Failed.\n"
        "2026-11-20T10:11:35+00:00 gpu01 kernel: NVRM: Xid (PCI:0000:06:00): 79\n"
        "2026-11-20T10:11:36+0000 gpu01 (vllm)[70111]: vllm.service: Failed at step EXEC\n"
        "not of a journal"
    )

    found = [(entry.identifier, entry.pid, entry.message) for entry in from_short_iso(text)]

    assert found == [
        ("systemd", 1, "vllm.service: Failed."),
        ("kernel", None, "NVRM: Xid (PCI:0000:06:00): 79"),
        ("(vllm)", 70111, "vllm.service: Failed at step EXEC"),
        (None, None, "not of a journal"),
    ]
    assert from_short_iso(text)[0].time == 1795169494.0


def test_lines_of_one_message_keep_its_number() -> None:
    entries = from_supervisor([{"message": "one\ntwo"}, {"message": "three"}])

    assert [(entry.number, entry.message) for entry in entries] == [
        (1, "one"),
        (1, "two"),
        (2, "three"),
    ]


def test_hostile_text_loses_what_a_terminal_would_act_upon() -> None:
    (entry,) = read("a\x1b]0;title\x07b\x00\x08c\u202ed")

    assert entry.message == "abcd"


def test_read_knows_the_shapes() -> None:
    assert read('{"MESSAGE": "x", "_PID": "3"}')[0].pid == 3
    assert read("2026-11-20T10:11:34+0000 gpu01 vllm[5]: x")[0].pid == 5
    assert read("\nTraceback")[1].message == "Traceback"
    assert [entry.message for entry in read("")] == [""]
