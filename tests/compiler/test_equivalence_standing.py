"""The equivalence check: signals, streams, umask and limits come to the ranks as the engine gives them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.compiler.equivalence.check import check

from .edited_jobs import files_of

NODE, TASK = "node.sh", "task.sh"
START = 'exec "$python" -I -S "$rt/supervise.py" --max-restarts="$max_restarts" -- "${launch[@]}"\n'
OF_SLURM = 'exec bash "$artifact/node.sh" "$SLURM_NODEID"'
OF_POD = 'exec bash "$run/artifact/$attempt/node.sh" "$JOBC_NODE_RANK" train\n'
OF_SKY = 'bash "$run/artifact/$attempt/node.sh" "$JOBC_NODE_RANK" "$payload" 2>&1 &'
EDITS = [  # job, file, what stands there, what somebody makes of it, what is said
    ("slurm", NODE, START, f"{START[:-1]} | tee log\n", r"^node\.sh: what starts the ranks is a process below it"),
    ("slurm", NODE, START, f"{START[:-1]} | tee log\n", r"^node\.sh: stdout of .* leads to a pipe, and must lead"),
    ("slurm", NODE, START, f'trap "" TERM\n{START}', r"^node\.sh: .* ignores SIGTERM, and must not$"),
    ("slurm", NODE, START, f"exec 1>/dev/null\n{START}", r"^node\.sh: stdout of .* leads to /dev/null, and must"),
    ("slurm", NODE, START, f"ulimit -n 64\n{START}", r"^node\.sh: open files \(ulimit -n\) of .* is 64, and must be "),
    ("slurm", NODE, "# ---- the environment of the ranks\n", "umask 0123\n", r"^node\.sh: umask of .* is 0123, and"),
    ("slurm", NODE, START, f"umask u=rwx,g=rx,o=\n{START}", r"^node\.sh: umask of .* is 0?027, and must be "),
    ("slurm", NODE, START, START.removeprefix("exec "), r"^node\.sh: what starts the ranks is a process below it"),
    ("docker", NODE, START, f"exec 2>&1\n{START}", r"^node\.sh: stderr of .* to /dev/null, .* run/logs/node_00\.log$"),
    ("mpirun", NODE, START, f"{START[:-1]} <\"$here/hosts.txt\"\n", r"^node\.sh: stdin of .* to another file"),
    ("local", NODE, START, f"ulimit -c 1 -v 90000000\n{START}", r"^node\.sh: virtual memory \(ulimit -v\)"),
    ("local", "submit.sh", 'start_run "$', 'umask 0123\nstart_run "$', r"^submit\.sh: umask of node\.sh is 0123,"),
    ("slurm", TASK, OF_SLURM, OF_SLURM.removeprefix("exec "), r"^task\.sh: node\.sh is a process below it"),
    ("slurm", "job.sbatch", "srun \\\n", "ulimit -n 64\nsrun \\\n", r"^job\.sbatch: open files .* of srun is 64, and"),
    ("slurm", "job.sbatch", " train &\n", " train >/dev/null &\n", r"^job\.sbatch: stdout of srun leads to /dev/null"),
    ("kubernetes", TASK, OF_POD, f"{OF_POD[:-1]} | cat\n", r"^task\.sh: node\.sh is a process below it"),
    ("kubernetes", TASK, OF_POD, f'trap "" TERM\n{OF_POD}', r"^task\.sh: node\.sh ignores SIGTERM, and must not$"),
    ("skypilot", TASK, OF_SKY, OF_SKY.replace("2>&1", "2>/dev/null"), r"^task\.sh: stderr of node\.sh leads to /dev/"),
    ("ssh", TASK, "</dev/null >/dev/null 2>>", "</dev/null 2>>", r"^task\.sh: stdout of node\.sh leads to the engine"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "path", "before", "after", "said"), EDITS, ids=lambda value: str(value)[:20])
def test_what_does_not_come_to_the_ranks_as_it_was_given_is_noticed(
    job: str, path: str, before: str, after: str, said: str
) -> None:
    files = files_of(job)
    assert files[path].count(before) == 1, files[path]
    found = check({**files, path: files[path].replace(before, after)}).differences
    assert any(re.search(said, text) for text in found), found


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (NODE, START, f"trap 'echo gone' EXIT TERM\n{START}"),  # of a shell that is gone when the ranks start
        (NODE, START, f"(umask 077 && : >/dev/null)\n{START}"),
        (NODE, START, f"ulimit -Sn $(ulimit -Sn)\n{START}"),
        (TASK, OF_SLURM, f"before=$(umask)\numask 077\numask \"$before\"\n{OF_SLURM}"),
    ],
)  # fmt: skip
def test_what_is_as_before_when_the_ranks_start_is_no_difference(path: str, before: str, after: str) -> None:
    files = files_of("slurm")
    found = check({**files, path: files[path].replace(before, after)}).differences
    assert not [text for text in found if "must" in text], found


@pytest.mark.parametrize("limit", [64, 512])
def test_what_the_caller_has_is_no_difference(limit: int) -> None:
    """Its umask, its limits, its streams, and a signal that it ignores, as below nohup."""
    script = (
        f"umask 077; trap '' HUP TERM QUIT; ulimit -n {limit} -c 0; exec \"$0\" -m {__name__} 2>&1 </dev/zero | cat"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["bash", "-c", script, sys.executable],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "('slurm', ())\n('ssh', ())\n('skypilot', ())\n", done.stdout


if __name__ == "__main__":
    for name in ("slurm", "ssh", "skypilot"):
        print((name, check(files_of(name)).differences))
