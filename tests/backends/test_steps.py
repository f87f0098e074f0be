"""The keys before, per_node and after: the user's own lines of bash around the ranks, on two nodes of this machine."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

RANK = ("bash", "-c", 'echo "rank $RANK" >>../said; env | grep -c "^JOBC_\\(BEFORE\\|PER_NODE\\|AFTER\\)" || true')


def compiled(folder: Path, *overrides: str, command: tuple[str, ...] = RANK) -> Path:
    words = ("backend=local", "launcher=spawn", "nodes=2", "name=stepped", *overrides)
    return write_compiled_job(compile_job(CompileRequest(words, command)), folder / "artifacts", force=True) / "jobctl"


def submitted(folder: Path, *overrides: str, command: tuple[str, ...] = RANK) -> tuple[int, str]:
    program = compiled(folder, *overrides, command=command)
    done = subprocess.run([program, "submit"], cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout + done.stderr


def said(folder: Path) -> list[str]:
    (run,) = folder.glob("runs/*/*")
    return (run / "said").read_text().splitlines()


def test_the_ranks_start_after_the_steps_of_all_nodes(tmp_path: Path) -> None:
    code, output = submitted(
        tmp_path,
        'before=echo before >>../said\nfalse || echo "$JOBC_RUN_ID"',
        "per_node=sleep $JOBC_NODE_RANK\necho staged >>../said",
        "after=echo after $JOBC_EXIT_CODE >>../said",
    )
    assert code == 0, output
    first, *staged_and_ranks, last = said(tmp_path)
    assert (first, last) == ("before", "after 0")
    assert staged_and_ranks[:2] == ["staged"] * 2 and sorted(staged_and_ranks[2:]) == ["rank 0", "rank 1"]
    assert [log.read_text().splitlines()[-1] for log in tmp_path.glob("runs/*/*/logs/rank_*.log")] == ["0", "0"]


def test_a_failure_of_before_ends_all_nodes_and_after_gets_its_code(tmp_path: Path) -> None:
    code, output = submitted(tmp_path, "before=[ls /nonexistent]", "after=echo $JOBC_EXIT_CODE >>../said")
    assert code == 65 and "before failed (exit 2): ls /nonexistent" in output, output
    assert said(tmp_path) == ["65"]


def test_a_failure_of_after_is_a_crash_of_a_job_that_was_done(tmp_path: Path) -> None:
    code, output = submitted(tmp_path, "after=echo $JOBC_EXIT_CODE >>../said\nfalse")
    assert code == 1 and "jobc: after failed (exit 1): false" in output, output
    assert said(tmp_path)[-1] == "0"


def test_a_failure_of_after_keeps_the_code_of_a_failed_job(tmp_path: Path) -> None:
    code, output = submitted(tmp_path, "after=echo $JOBC_EXIT_CODE >>../said\nfalse", command=("bash", "-c", "exit 65"))
    assert code == 65 and "jobc: after failed (exit 1): false" in output, output
    assert said(tmp_path) == ["65"]


def test_the_time_limit_ends_after(tmp_path: Path) -> None:
    code, output = submitted(tmp_path, "nodes=1", "time=2s", "lifecycle.grace=1s", "after=sleep 90", command=("true",))
    assert code == 1 and "jobc: after: stopped, because the time limit was reached" in output, output


def test_a_stop_at_once_ends_after_and_the_job_has_ended_well(tmp_path: Path) -> None:
    program = compiled(tmp_path, "nodes=1", "after=echo begun >>../said\nsleep 90", command=("true",))
    with subprocess.Popen([program, "submit"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        while not [*tmp_path.glob("runs/*/*/said")]:
            time.sleep(0.1)
        subprocess.run([program, "stop", "--now"], cwd=tmp_path, capture_output=True, check=True)
        output, _ = job.communicate(timeout=60)
    assert job.returncode == 0 and b"after: stopped" in output, output


def test_a_stop_ends_before_and_the_wait_for_it(tmp_path: Path) -> None:
    program = compiled(tmp_path, "before=echo begun >>../said\nsleep 90", "after=echo $JOBC_EXIT_CODE >>../said")
    with subprocess.Popen([program, "submit"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        while not [*tmp_path.glob("runs/*/*/said")]:
            time.sleep(0.1)
        began = time.monotonic()
        job.send_signal(signal.SIGINT)
        output, _ = job.communicate(timeout=60)
    assert time.monotonic() - began < 30, output
    assert said(tmp_path)[0] == "begun" and "rank" not in " ".join(said(tmp_path))


LINE = 'echo "then $JOBC_NODE_RANK" >>../said'


AS_ROOT = "env.OMPI_ALLOW_RUN_AS_ROOT=1 env.OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


@pytest.mark.parametrize("launcher", ["spawn", "mpirun"])
def test_all_ranks_run_each_entry_of_then_when_those_before_have_ended(tmp_path: Path, launcher: str) -> None:
    entries = f"then=['sleep $RANK; {LINE}',\"echo last >>../said\n! env | grep JOBC_THEN\"]"
    code, output = submitted(
        tmp_path, f"launcher={launcher}", *AS_ROOT.split(), entries, "after=echo after $JOBC_EXIT_CODE >>../said"
    )
    assert code == 0 and "jobc: then 2 of 2: echo last" in output, output
    ranks, then, (*last, after) = (lines := said(tmp_path))[:2], lines[2:4], lines[4:]
    assert (sorted(ranks), sorted(then)) == (["rank 0", "rank 1"], ["then 0", "then 1"])
    assert (last, after) == (["last"] * 2, "after 0")


def test_a_resumed_run_continues_with_the_entry_of_then_that_failed(tmp_path: Path) -> None:
    entries = f"then=['{LINE}','test -e ../mended || exit $((3 * RANK)); echo last >>../said','echo end >>../said']"
    program = compiled(tmp_path, entries)
    done = subprocess.run([program, "submit"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1 and "rank 1 failed first (exit status 3)" in done.stdout, done.stdout
    assert "jobc: resume with: " in done.stdout
    assert sorted(said(tmp_path)) == ["rank 0", "rank 1", "then 0", "then 1"]
    (run,) = tmp_path.glob("runs/*/*")
    (run / "mended").touch()
    words = [program, "submit", "--resume", run.name]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said(tmp_path)[4:] == ["last", "last", "end", "end"]


def test_a_restart_in_place_repeats_only_the_entry_of_then_that_failed(tmp_path: Path) -> None:
    entry = "[ $RANK = 0 ] || [ -e ../again ] || { touch ../again; exit 1; }; echo then >>../said"
    words = ("lifecycle.max_restarts=1", "before=echo before >>../said", f"then=['[ $RANK = 1 ]||sleep 2;{entry}']")
    code, output = submitted(tmp_path, *words)
    assert code == 0 and "restart 1 of 1" in output, output
    assert sorted(said(tmp_path)) == ["before", "rank 0", "rank 1", "then", "then"]


def test_a_command_that_was_stopped_runs_again_before_then(tmp_path: Path) -> None:
    """Its ranks save and exit with 0, which must not count as the end of the training."""
    trains = "echo train >>../said; trap 'exit 0' TERM; test -e ../trained || while :; do sleep 0.1; done"
    program = compiled(tmp_path, f"then=['{LINE}']", command=("bash", "-c", trains))
    with subprocess.Popen([program, "submit"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        while len([line for file in tmp_path.glob("runs/*/*/said") for line in file.read_text().split()]) < 2:
            time.sleep(0.1)
        subprocess.run([program, "stop"], cwd=tmp_path, capture_output=True, check=True)
        output, _ = job.communicate(timeout=60)
    assert said(tmp_path) == ["train", "train"] and job.returncode == 0, output
    (run,) = tmp_path.glob("runs/*/*")
    (run / "trained").touch()
    words = [program, "submit", "--resume", run.name]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(said(tmp_path)) == ["then 0", "then 1", *["train"] * 4]


@pytest.mark.parametrize("key", ["before", "per_node", "then", "after"])
@pytest.mark.parametrize("value", ["null", "[a,[b]]", '["a\x07b"]', "['']", "[END_OF_LINES]", '["a\nEND_OF_LINES\nb"]'])
def test_a_value_that_is_not_a_list_of_lines_is_refused(key: str, value: str) -> None:
    with pytest.raises(CompileError) as error:
        compile_job(CompileRequest(("backend=local", f"{key}={value}"), ("train.py",)))
    assert all(re.fullmatch(rf"{key}(\.\d)?", found.key) for found in error.value.diagnostics)


def test_a_job_without_the_keys_has_no_program_for_them(tmp_path: Path) -> None:
    for words, is_packed in (((), False), (("after=[true]",), True)):
        listed = subprocess.run(
            ["unzip", "-l", compiled(tmp_path, *words)], capture_output=True, text=True, check=False
        ).stdout
        assert ("jobc_runtime/ranks/steps.py" in listed) is is_packed
