"""A script of one's own on Slurm with two nodes: its start, its files and a second submit, as the user sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.tests.backends.jobs import SPAWN, make, read
from jobc.tests.testbed import Cluster, wait_for

SCRIPT = """
import os, pathlib, time
rank, out = int(os.environ["RANK"]), pathlib.Path("outputs")
out.mkdir(exist_ok=True)
(out / f"part_{rank}.bin").write_bytes(bytes(1024 * (rank + 1)))
print("saved", flush=True)
while not (out / "end").exists():
    time.sleep(0.1)
"""


@pytest.mark.engine
@pytest.mark.slow
def test_a_script_on_two_nodes_is_followed_to_its_files(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "job", SPAWN, "nodes=2", "procs=1", command=("train.py",))
    (job.project / "train.py").write_text(SCRIPT)
    code, said = job("submit", "--run-id", "one")
    assert code == 0 and "warning" not in said, said
    outputs = job.run / "code/outputs"  # the only run so far
    wait_for(lambda: (outputs / "part_0.bin").exists() and (outputs / "part_1.bin").exists(), "both ranks")
    wait_for(lambda: "; first output " in job("status")[1], "the first output in status")
    code, said = job("submit", "--run-id", "two")
    assert code == 0 and "warning: job job already has a live run: one; this submit starts another" in said, said
    job("stop", "--run", "two")
    (outputs / "end").touch()
    cluster.wait_idle()
    assert "one of job job, attempt 0: done (exit 0)" in job("status", "--run", "one")[1]
    line = (
        f"jobc: script wrote 3 files (3.0 KiB) in {outputs.parent}: outputs/part_1.bin, outputs/part_0.bin, outputs/end"
    )
    assert line in read(outputs.parents[1] / "logs/node_00.log")
