"""The equivalence check: an edit of what task.sh and job.sbatch make of an end, or of what they hand on, is noticed."""

from __future__ import annotations

import pytest

from jobc.compiler.equivalence.check import check

from .edited_jobs import files_of

TASK, BATCH, SKY = "task.sh", "job.sbatch", "task.sky.yaml"
EDITS = [  # job, file, what stands there, what somebody makes of it, what is said
    ("sky_shared", TASK, 'exit "$said"', "exit 0", "node 0 ends with 0, not 65, when its ranks ended with 65"),
    ("sky_shared", TASK, "    said=0\n", "    said=1\n", "node 1 ends with 1, not 0"),
    ("sky_shared", TASK, "ends_with=$code", "ends_with=0", "does not say for status.sh that it ends with 65"),
    ("sky_shared", TASK, 'kill -s TERM "$node"', 'kill -s KILL "$node"', "does not tell the ranks to save"),
    ("sky_shared", TASK, "'ends_with=75; exit 143'", "'ends_with=75'", "before the ranks are there does not end it"),
    ("sky_shared", TASK, "export JOBC_INIT_FROM=$init_from", "true", "not told that the run begins with the weights"),
    (
        "sky_shared",
        SKY,
        'exec bash "$artifact/task.sh"',
        'bash "$artifact/task.sh"; exit 0',
        "node 0 ends with 0, not 65",
    ),
    ("skypilot", TASK, "; then prepare_attempt; fi", "; then :; fi", "node 0 prepares no attempt"),
    ("skypilot", TASK, 'exit "$said"', "exit 0", "node 0 ends with 0, not 65"),
    ("ssh", TASK, '    exit "$code"\n', "    exit 0\n", "ends with 0, not 65, when node.sh ends with 65 at once"),
    ("ssh", TASK, 'exit "$(key "$state" exit)"', "exit 0", "ends with 0, not 65, when the node has ended with 65"),
    ("ssh", TASK, "setsid bash", "bash", "without setsid"),
    ("ssh", TASK, '  mark_stopped "$run"\n', "", "does not do what stop.sh asks of it with TERM"),
    ("ssh", TASK, "$5 != TERM", "$5 == TERM", "does not do what stop.sh asks of it with TERM"),
    ("ssh", TASK, "export JOBC_INIT_FROM=$init_from", "true", "not told that the run begins with the weights"),
    ("ssh", TASK, "JOBC_ATTEMPT=$attempt", "JOBC_ATTEMPT=0", "not told which attempt"),
    ("slurm", TASK, "JOBC_ATTEMPT=$2", "JOBC_ATTEMPT=0", "not told which attempt"),
    ("slurm", TASK, "exec bash", "! bash", "ends with 0 when node.sh has ended with 65"),
    ("slurm", BATCH, "first_attempt + restarts", "first_attempt", "the first restart of attempt 2 is not attempt 3"),
    ("slurm", BATCH, "control/STOP", "control/STOPPED", "starts a run that stop.sh has stopped"),
    ("slurm", BATCH, 'again=$(starts_again "$code" "$asked")', "again=''", "ends after exit 75 of a preempted job"),
    ("slurm", BATCH, 'record_job "$job_id" "$attempt"\n', "\n", "does not record its attempt before it starts"),
    ("slurm", BATCH, 'leave "$code"', "leave 0", "ends with 0 when srun has ended with 65"),
    ("slurm", TASK, "unset JOBC_INIT_FROM", ":", "leaves JOBC_INIT_FROM as a shell outside has set it"),
    ("ssh", TASK, "unset JOBC_INIT_FROM", ":", "leaves JOBC_INIT_FROM as a shell outside has set it"),
    ("local", "submit.sh", "unset JOBC_INIT_FROM", ":", "leaves JOBC_INIT_FROM as a shell outside has set it"),
    ("slurm", BATCH, 'wait "$watch" || true', ":", "ends before what it has started beside srun"),
    ("jobset", TASK, "export JOBC_INIT_FROM=$init_from", "true", "not told that the run begins with the weights"),
    ("jobset", TASK, 'exec bash "$run', '! bash "$run', "task.sh ends with 0 when node.sh has ended with 65"),
]


@pytest.mark.parametrize(("job", "path", "before", "after", "said"), EDITS)
def test_an_end_that_gets_lost_is_noticed(job: str, path: str, before: str, after: str, said: str) -> None:
    files = dict(files_of(job))
    assert before in files[path]
    files[path] = files[path].replace(before, after)
    found = check(files).differences
    assert any(said in words for words in found), found
