"""Ranks are suspected of a hang when all that run on a node are idle for minutes, and named."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobc.runtime.run_folder.run_folder import RunFolder, write_small_file
from jobc.runtime.supervisor.hang_watch import HangWatch, SuspectedHang
from jobc.runtime.system import processes


class Ranks:
    """Two ranks whose CPU time, logs and exits the test sets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run, self.ticks = RunFolder(folder, 0), {100: 0, 101: 0}
        (folder / "logs").mkdir()
        for rank in range(2):
            write_small_file(self.run.rank_state_file(rank), keys={"pid": 100 + rank, "attempt": 0})
        self.watch = HangWatch(self.run, range(2), 0)
        monkeypatch.setattr(processes, "process_cpu_times", lambda pids: {pid: self.ticks[pid] for pid in pids})

    def look(self, *times: float) -> list[float]:
        """Return those of the times at which the suspicion changed."""
        return [now for now in times if self.watch.check_ranks(now)]


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(tmp_path, monkeypatch)


def test_ranks_that_do_nothing_for_five_minutes_are_named_until_one_works(ranks: Ranks) -> None:
    ranks.ticks = {100: 500, 101: 500}
    assert ranks.look(*range(0, 340, 10)) == [330]
    assert str(ranks.watch.hang) == "ranks 0 1 may be hung: no output and no CPU time for 300 s"
    ranks.ticks[101] += 29  # of a heartbeat
    assert ranks.look(360) == []
    ranks.ticks[101] += 31
    assert ranks.look(390) == [390] and ranks.watch.hang is None


@pytest.mark.parametrize("how", ["cpu", "log"])
def test_while_one_rank_works_no_other_is_suspected(ranks: Ranks, how: str) -> None:
    for now in range(30, 1000, 30):
        if how == "cpu":
            ranks.ticks[100] += 50
        else:
            ranks.run.rank_log_file(0).write_text("." * now)
        assert ranks.look(now) == []


def test_a_rank_that_left_the_others_waiting_is_named(ranks: Ranks) -> None:
    write_small_file(ranks.run.rank_exit_file(0), "0", {"reason": "exit status 0", "time_ns": 1})
    assert ranks.look(*range(0, 340, 30)) == [330]
    assert ranks.watch.hang == SuspectedHang(300, (1,), (0,))
    assert str(ranks.watch.hang).endswith("; rank 0 exited with 0, and the others may be waiting for it")
    keys = ranks.watch.hang.state_keys()
    assert (keys["idle_ranks"], keys["left_ranks"]) == ("1", "0")


def test_without_ranks_there_is_no_suspicion(tmp_path: Path) -> None:
    watch = HangWatch(RunFolder(tmp_path, 0), range(2), 0)
    assert not any(watch.check_ranks(now) for now in range(0, 2000, 30))


def test_the_cpu_time_of_a_rank_is_that_of_all_below_it() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    program = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {burn!r}]); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", f"{program}; time.sleep(60)"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processes.process_cpu_times([process.pid, 2**22 + 1])[process.pid] >= 30
        before = processes.process_cpu_times([process.pid])
        time.sleep(0.1)
        assert processes.process_cpu_times([process.pid]) == before
        process.kill()
