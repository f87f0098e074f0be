"""Worker processes that read data: what a rank sends them, and what is reported about a hung worker."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import reduction
from pathlib import Path

import pytest

from ..conftest import DIGITS, Run, changed
from ..in_process import train

NewRun = Callable[[], Run]

HANGS = """
import runpy, time
from torch.utils.data import get_worker_info
from jobc.trainer.data.digits import DigitImages

batch, batches = DigitImages.batch, 0

def reads_for_ever(self, indices_B):
    global batches
    batches += 1
    if get_worker_info() and batches > 5:
        time.sleep(3600)
    return batch(self, indices_B)

DigitImages.batch = reads_for_ever
runpy.run_module("jobc.trainer", run_name="__main__")
"""


def test_the_stack_of_a_worker_that_hangs_is_in_the_log_of_its_rank(new_run: NewRun) -> None:
    run = new_run()
    run.start(changed(DIGITS, {"loader.workers": 1, "process_group.step_timeout_s": 6}), ["-c", HANGS])
    run.wait_for_words("in reads_for_ever")
    assert "has been in the data phase of step 6 for" in run.output(0)
    assert run.ranks[0].poll() is None, "a signal that asks for stacks ends nothing"


def test_a_rank_sends_its_workers_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a file it would begin a thread, and fork more workers beside it."""
    sent: list[int] = []  # by this process: a worker has a list of its own
    duplicate = reduction.DupFd

    def noted(descriptor: int) -> object:
        sent.append(descriptor)
        return duplicate(descriptor)

    monkeypatch.setattr(reduction, "DupFd", noted)
    assert train(tmp_path, changed(DIGITS, {"loader.workers": 1, "loop.steps": 3})) == 0
    assert sent == []
