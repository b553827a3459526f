"""Tracebacks, put together from mixed lines, and which failure came first."""

from textwrap import dedent

from tasks.diagnosis.journal import from_supervisor, read
from tasks.diagnosis.rootcause import is_consequence, root_cause
from tasks.diagnosis.tracebacks import split, tracebacks

MIXED = dedent("""\
    (Worker_TP0 pid=11) ERROR 12-01 12:00:00 [w.py:783] Traceback (most recent call last):
    (Worker_TP1 pid=12) ERROR 12-01 12:00:00 [w.py:783] Traceback (most recent call last):
    (Worker_TP0 pid=11) ERROR 12-01 12:00:00 [w.py:783]   File "/v/worker.py", line 7, in load
    (Worker_TP1 pid=12) ERROR 12-01 12:00:00 [w.py:783]   File "/v/worker.py", line 7, in load
    (Worker_TP1 pid=12) ERROR 12-01 12:00:00 [w.py:783]     load(path)
    (Worker_TP0 pid=11) ERROR 12-01 12:00:00 [w.py:783]     load(path)
    (Worker_TP1 pid=12) ERROR 12-01 12:00:00 [w.py:783] ValueError: no room on GPU 1
    (Worker_TP0 pid=11) ERROR 12-01 12:00:00 [w.py:783] ValueError: no room on GPU 0
    (APIServer pid=10) Traceback (most recent call last):
    (APIServer pid=10)   File "/v/utils.py", line 3, in wait
    (APIServer pid=10) RuntimeError: Engine core initialization failed. See root cause above.
""")


def test_mixed_workers() -> None:
    found = tracebacks(read(MIXED))

    assert [(one.process, one.pid, one.raised.text, one.raised.number) for one in found] == [
        ("Worker", 12, "ValueError: no room on GPU 1", 7),
        ("Worker", 11, "ValueError: no room on GPU 0", 8),
        (
            "APIServer",
            10,
            "RuntimeError: Engine core initialization failed. See root cause above.",
            11,
        ),
    ]
    assert [frame.function for frame in found[0].raised.frames] == ["load"]


def test_the_same_in_several_workers_is_one_root_cause() -> None:
    cause = root_cause(read(MIXED))

    assert cause is not None
    assert (cause.process, cause.pid, cause.text) == ("Worker", 12, "ValueError: no room on GPU 1")
    assert (cause.times_seen, cause.pids, cause.line_numbers) == (2, (12, 11), (7, 8))
    assert len(cause.consequences) == 1
    assert cause.consequences[0].startswith("APIServer: RuntimeError: Engine core initialization")


def test_a_chain_is_followed_to_its_first_cause() -> None:
    cause = root_cause(
        read(
            dedent("""\
    Traceback (most recent call last):
      File "/v/hub.py", line 1, in get
    HTTPError: 401

    The above exception was the direct cause of the following exception:

    Traceback (most recent call last):
      File "/v/config.py", line 2, in read
    OSError: You are trying to access a gated repo.
    Make sure to have access to it.
    """)
        )
    )

    assert cause is not None
    assert cause.text == "HTTPError: 401"
    assert cause.raised_from == (
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it.",
    )
    assert (cause.number, cause.line_numbers) == (3, (3, 9))


def test_a_consequence_at_the_end_of_a_chain_is_not_the_cause() -> None:
    cause = root_cause(
        read(
            dedent("""\
    Traceback (most recent call last):
      File "/v/a.py", line 1, in a
    KeyError: 'x'

    During handling of the above exception, another exception occurred:

    Traceback (most recent call last):
      File "/v/b.py", line 2, in b
    RuntimeError: Engine core initialization failed. See root cause above.
    """)
        )
    )

    assert cause is not None
    assert cause.text == "KeyError: 'x'"


def test_the_older_prefix_and_the_journals_own_pid() -> None:
    entries = from_supervisor(
        [
            {
                "pid": 9,
                "message": "ERROR 03-02 19:48:36 w.py:783] Traceback (most recent call last):",
            },
            {"pid": 8, "message": "(EngineCore_DP0 pid=8) INFO 03-02 19:48:36 [core.py:1] hello"},
            {
                "pid": 9,
                "message": 'ERROR 03-02 19:48:36 w.py:783]   File "/v/a.py", line 1, in a',
            },
            {"pid": 9, "message": "ERROR 03-02 19:48:36 w.py:783] ValueError"},
        ]
    )

    (found,) = tracebacks(entries)

    assert (found.pid, found.raised.exception, found.raised.message) == (9, "ValueError", "")


def test_ranks_are_taken_off_names() -> None:
    names = [
        "APIServer_0",
        "EngineCore_DP0",
        "Worker_DP0_TP1_EP1",
        "VllmWorker-0",
        "Worker",
        "EngineCore_0",
    ]

    found = [split(read(f"({name} pid=1) x")[0]).process for name in names]

    assert found == ["APIServer", "EngineCore", "Worker", "Worker", "Worker", "EngineCore"]
    assert split(read("(VllmWorker rank=1 pid=5) x")[0]).pid == 5


def test_a_traceback_cut_at_its_beginning() -> None:
    text = '    torch.foo()\n  File "/v/a.py", line 1, in a\n    x()\nRuntimeError: late'

    assert [one.raised.text for one in tracebacks(read(text))] == ["RuntimeError: late"]


def test_a_traceback_cut_at_its_end_is_no_failure() -> None:
    text = 'Traceback (most recent call last):\n  File "/v/a.py", line 1, in a\n    x()'

    assert tracebacks(read(text)) == []


def test_a_warning_with_a_traceback_is_no_root_cause() -> None:
    text = "\n".join(
        f"(APIServer pid=1) WARNING 12-01 12:00:00 [x.py:1] {line}"
        for line in (
            "Traceback (most recent call last):",
            '  File "/v/a.py", line 1, in a',
            "ImportError: optional",
        )
    )
    text += "\n(APIServer pid=1) INFO:     Application startup complete."

    assert root_cause(read(text)) is None


def test_what_was_lost_is_quoted_by_its_consequence() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/v/core.py", line 1, in run\n'
        "RuntimeError: Worker failed with error 'module 'a' has no attribute 'b'', "
        "please check the stack trace above for the root cause"
    )

    cause = root_cause(read(text))

    assert cause is not None
    assert (cause.process, cause.message) == ("Worker", "module 'a' has no attribute 'b'")


def test_only_the_kernel_speaks_for_the_kernel() -> None:
    message = "NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus."

    from_kernel = root_cause(from_supervisor([{"identifier": "kernel", "message": message}]))

    assert from_kernel is not None
    assert from_kernel.process == "kernel"
    assert root_cause(from_supervisor([{"identifier": "vllm", "message": message}])) is None


def test_consequences() -> None:
    assert is_consequence("EngineDeadError: EngineCore encountered an issue.")
    assert is_consequence("RuntimeError: Executor failed.")
    assert is_consequence(
        "Exception: WorkerProc initialization failed due to an exception in a background "
        "process. See stack trace for root cause."
    )
    assert not is_consequence("RuntimeError: The executor failed to find a GPU")


def test_nothing_is_found_in_nothing() -> None:
    assert root_cause([]) is None
    assert root_cause(read("INFO: all is well")) is None


def test_a_warning_of_long_before_says_why_something_is_absent() -> None:
    text = dedent("""\
    (APIServer pid=4) WARNING 12-01 12:00:00 [x.py:2] Found ulimit of 1024: `OSError: [Errno 24]`
    (APIServer pid=4) WARNING 12-01 12:00:00 [_custom_ops.py:20] Failed to import from vllm._C \
with ImportError('libcudart.so.12: cannot open shared object file')
    (EngineCore pid=5) INFO 12-01 12:00:09 [core.py:139] Initializing a V1 LLM engine
    (EngineCore pid=5) AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'
    """)

    cause = root_cause(read(text))

    assert cause is not None
    assert cause.number == 2
    assert any("rms_norm" in one for one in cause.consequences)


def test_an_installers_words() -> None:
    pip = root_cause(read("ERROR: Could not find a version that satisfies x==9 (from: none)"))
    uv = root_cause(read("error: Failed to fetch\n  Caused by: retried\n  Caused by: dns error"))

    assert pip is not None
    assert uv is not None
    assert (pip.process, uv.process, uv.number) == ("uv", "uv", 3)
