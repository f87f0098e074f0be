"""The key `setup`: the user's own lines of bash on each node, before its ranks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

PROGRAM = """
import os
print(*(os.environ.get(name) for name in ("FROM_SETUP", "BOTH", "OMP_NUM_THREADS")), os.environ["PATH"].split(":")[0])
"""
ENV_SH = "export FROM_SETUP=setup BOTH=setup OMP_NUM_THREADS=7\n"


def run(folder: Path, verb: str, *overrides: str) -> tuple[int, str]:
    """Compile a job of one rank in the folder, and call one of its verbs."""
    (folder / "train.py").write_text(PROGRAM)
    (folder / "env.sh").write_text(ENV_SH)
    job = compile_job(CompileRequest(("backend=local", "launcher=spawn", *overrides), ("train.py",)))
    program = write_compiled_job(job, folder / "artifacts", force=True) / "jobctl"
    done = subprocess.run([program, verb], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_lines_run_before_the_ranks_and_the_spec_has_the_last_word(tmp_path):
    lines = 'setup=[source env.sh,"export PATH=/from_setup:$PATH","[ -d /nonexistent ] && false"]'
    code, output = run(tmp_path, "submit", lines, "env.BOTH=spec", "env.PATH=/from_spec", "threads=3")
    assert code == 0 and "\nsetup spec 3 /from_spec\n" in output, output


def test_a_block_of_text_is_one_line_each(tmp_path):
    code, output = run(tmp_path, "submit", 'setup="if true; then\n  export FROM_SETUP=block\nfi"')
    assert code == 0 and "\nblock None 1 " in output, output


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("[source env.sh,ls /nonexistent]", "setup failed (exit 2): ls /nonexistent\n  hint: line 39 of launch.sh"),
        ("[no-such-command]", "setup failed (exit 127): no-such-command"),
        ("[exit 3]", "setup exited with 3"),
        ("[exit 2]", "setup: a line is not valid bash, or calls exit 2"),
    ],
)
def test_a_line_that_fails_ends_the_start_before_a_run_exists(tmp_path, lines, reason):
    code, output = run(tmp_path, "submit", f"setup={lines}")
    assert code == 65 and f"error: {reason}" in output, output
    assert not list(tmp_path.glob("runs/*/*")) and "Traceback" not in output


def test_preflight_shows_a_line_that_fails_and_checks_the_rest(tmp_path):
    code, output = run(tmp_path, "preflight", "setup=[ls /nonexistent]")
    assert code == 1 and "FAIL  setup failed (exit 2): ls /nonexistent" in output and "ok    python" in output, output


@pytest.mark.parametrize("word", ["setup=null", "setup=[a,[b]]", 'setup=["a\x07b"]', "setup=['']"])
def test_a_value_that_is_not_a_list_of_lines_is_refused(word):
    with pytest.raises(CompileError):
        compile_job(CompileRequest(("backend=local", word), ("train.py",)))
