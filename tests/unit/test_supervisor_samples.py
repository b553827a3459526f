"""What processes use and do, read from the kernel's own tables."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blocks.supervisor import doing, proc, samples
from blocks.supervisor.doing import Socket, Thread, capped, connections, waiting
from blocks.supervisor.gpu_memory import GpuMemory
from blocks.supervisor.patience import Beside, Looked
from tests.integration.nvml_stub import StubGpu, StubProcess, build_stub, configuration
from tests.integration.polling import until

ROOT = Path(__file__).parents[2]

TRAFFIC = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 9000000   1    0    0    0     0          0         0  9000000   1    0    0
  eth0: 1000      1    0    0    0     0          0         0  200       1    0    0
   ib0:30000      1    0    0    0     0          0         0  4000      1    0    0
"""
IO = "rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n"
TCP = """  sl  local_address rem_address   st tx_queue:rx_queue tr:when retrnsmt uid timeout inode
   0: 0100007F:1FBB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1
   1: 0100007F:9C40 0700000A:0801 01 00000000:00000000 00:00000000 00000000     0        0 12 1
   2: 0100007F:9C41 0700000A:0801 02 00000000:00000000 00:00000000 00000000     0        0 13 1
"""


def test_traffic_is_counted_but_not_that_with_oneself() -> None:
    assert samples.parse_traffic(TRAFFIC) == 35200
    assert samples.parse_traffic("") is None


def test_what_storage_was_asked_for() -> None:
    assert samples.parse_io(IO) == 12288
    assert samples.parse_io("") is None


def test_a_name_may_hold_anything() -> None:
    stat = proc.parse_stat("7 (a) R (b c) S 1 1 1 0 -1 4194560 1 1 1 1 150 50 20 10 20 0 1 0 5")
    assert (stat.name, stat.state) == ("a) R (b c", "S")
    ticks = os.sysconf("SC_CLK_TCK")
    assert (stat.cpu_seconds, stat.dead_children_seconds) == (200 / ticks, 30 / ticks)


def test_the_cpu_of_a_process_is_seen_without_its_control_group() -> None:
    before = samples.cpu_seconds(None, [os.getpid()])
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    after = samples.cpu_seconds(None, [os.getpid()])
    assert before is not None
    assert after is not None
    assert after - before >= 0.1
    assert samples.cpu_seconds(None, []) is None


def test_sockets_are_told_by_state_and_peer() -> None:
    known = doing.parse_sockets(TCP)
    assert known["12"] == Socket("established", "127.0.0.1:40000", "10.0.0.7:2049")
    assert connections(7, [known["11"], known["12"], known["13"]]) == [
        "Connections of 7: 1 established with 10.0.0.7:2049, "
        "1 trying to connect with 10.0.0.7:2049.",
        "7 listens on 127.0.0.1:8123.",
    ]
    assert connections(7, []) == []


def test_threads_are_grouped_by_where_they_wait() -> None:
    threads = [Thread("S", "futex_wait_queue")] * 3 + [Thread("D", "nfs_wait"), Thread("R", "")]
    assert waiting("S", threads) == (
        "is sleeping; 5 threads: 3 waiting in futex_wait_queue, 1 held in nfs_wait, 1 running."
    )
    many = [Thread("S", f"place{number}") for number in range(9)]
    assert waiting("?", many).endswith("5 elsewhere.")


def test_there_is_an_end_of_sentences() -> None:
    assert capped(["a"] * 40, 40) == ["a"] * 40
    assert capped(["a"] * 50, 40)[-1] == "And 11 more about its other processes."


def test_a_real_process_is_described() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        until(lambda: proc.argv(sleeping.pid) == ["sleep", "60"], "a process that sleeps", 5)
        stat, threads = proc.stat(sleeping.pid), doing.threads(sleeping.pid)
        sleeping.kill()
    assert stat is not None
    assert (stat.name, len(threads)) == ("sleep", 1)
    assert doing.doing(None, None) == ["The unit has no processes."]
    assert doing.doing("/no/such/group", None) == ["The unit has no processes."]
    assert proc.stat(1 << 22) is None
    assert (proc.argv(1 << 22), proc.sockets(1 << 22)) == ([], set())


def answer_of(beside: Beside) -> Looked:
    found: list[Looked] = []

    def answered() -> bool:
        found.extend(one for one in [beside.answer()] if one is not None)
        return bool(found)

    until(answered, "its answer", 5)
    return found[0]


def sleep(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_one_beside_us_is_asked_and_not_waited_for() -> None:
    beside = Beside(sleep)
    assert beside.answer() is None
    beside.ask(0)
    first = answer_of(beside)
    beside.ask(0)
    assert answer_of(beside) == first
    assert first.value != os.getpid()
    beside.ask(60)
    began = time.monotonic()
    assert beside.answer() is None
    beside.close()
    assert time.monotonic() - began < 1


def test_an_error_beside_us_is_a_problem_and_an_end_as_well() -> None:
    beside = Beside(lambda path: Path(path).read_text())
    beside.ask("/nowhere")
    assert "No such file" in str(answer_of(beside).problem)
    beside.close()
    ending = Beside(os._exit)
    ending.ask(3)
    assert answer_of(ending).problem == "looking ended without an answer"
    ending.close()


GPU = """
import sys, time
from blocks.supervisor.gpu_memory import GpuMemory
memory = GpuMemory()
seen = []
for _ in range(int(sys.argv[2])):
    seen.append(memory.held_by([int(sys.argv[1])]))
    time.sleep(0.3)
memory.close()
print(seen[-1], "pynvml" in sys.modules)
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_the_gpu_memory_of_some_processes(tmp_path: Path) -> None:
    build_stub(tmp_path)
    gpu = StubGpu("GPU-1", "NVIDIA H200", 10**11, 10**10, (StubProcess(7, 10**9),))
    (tmp_path / "conf").write_text(configuration([gpu, gpu]))
    told = {"LD_LIBRARY_PATH": str(tmp_path), "NVML_STUB_CONF": str(tmp_path / "conf")}
    assert gpu_memory("7", told) == "2000000000 False"
    assert gpu_memory("8", told) == "0 False"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a driver here")
def test_without_a_driver_there_is_no_gpu_memory() -> None:
    assert gpu_memory("7", {}) == "None False"
    memory = GpuMemory()
    until(lambda: memory.held_by([1]) is None and memory.is_over, "no driver", 5)


def gpu_memory(pid: str, told: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", GPU, pid, "8"],
        cwd=ROOT,
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
