"""`jobctl help`: a description of the job, its verbs and exit codes, and the settings that its backend ignores."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from jobc.compiler.emit.points_json import PointFiles, points_json_text
from jobc.tests.packed import write_program


def help_of(folder: Path, *words: str, **settings: Any) -> tuple[int, str]:
    """Return the exit code and the output of jobctl in an artifact with these settings."""
    artifact = folder / "artifacts/demo/local"
    (artifact / ".jobc").mkdir(parents=True)
    job = {"job": "demo", "backend": "local", "runs": "runs", "place": "demo/local", **settings}
    (artifact / ".jobc/job.json").write_text(json.dumps(job))
    command = [sys.executable, str(write_program(artifact)), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_help_describes_the_job(tmp_path: Path) -> None:
    code, output = help_of(tmp_path, "help", nodes=2, gpus=8, node={"procs": 8, "uses_trainer": True})
    assert code == 0 and output.startswith("jobctl: job demo on backend local\n")
    assert "2 nodes × 8 processes, 8 GPUs per node: world size 16" in output
    assert f"{tmp_path}/runs/demo/RUN_ID" in output and "final/" in output


def test_help_lists_verbs_and_exit_codes_but_nothing_that_the_job_lacks(tmp_path: Path) -> None:
    code, output = help_of(tmp_path, nodes=1, gpus=0, node={"procs": 1})
    assert code == 0 and "\n  submit " in output and "\n  clean " in output and "\n  75   stopped early; " in output
    assert "prefetch" not in output and "ignored" not in output and "results:" not in output
    assert "1 node × 1 process, 0 GPUs per node: world size 1" in output


def test_help_lists_ignored_settings_without_control_characters(tmp_path: Path) -> None:
    _, output = help_of(tmp_path, "help", ignored=["mem=64GB", "x=\x1b[2J"], prefetch=[{"kind": "run", "what": "true"}])
    assert output.endswith("ignored, because backend local does not support it:\n\n  mem=64GB\n  x=[2J\n")
    assert "\n  prefetch " in output


def test_help_of_a_sweep_names_its_points_and_a_bucket_is_printed_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts/demo/local"
    folder.mkdir(parents=True)
    (folder / "points.json").write_text(points_json_text({}, [PointFiles("x=1", "demo+x=1", [], {})]))
    _, output = help_of(tmp_path, "help", sweep=True, runs="s3://bucket/x")
    assert "points:   1, in points.json" in output and "s3://bucket/x/demo/RUN_ID" in output


def test_an_unknown_verb_is_refused(tmp_path: Path) -> None:
    code, output = help_of(tmp_path, "no-such")
    assert code == 2 and output == "error: unknown verb 'no-such'\n  hint: jobctl help lists the verbs\n"


def test_source_unpacks_the_program_into_a_new_folder(tmp_path: Path) -> None:
    code, output = help_of(tmp_path, "source", "read me")
    assert code == 0 and output.endswith(" modules in read me; __main__.py is the first one to read\n")
    assert "def main(" in (tmp_path / "read me/jobc_runtime/verbs/submit.py").read_text()
    assert (tmp_path / "read me/.gitignore").read_text() == "*\n"
    again = [sys.executable, str(tmp_path / "artifacts/demo/local/jobctl"), "source", "read me"]
    done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == (
        "error: cannot unpack jobctl to read me: File exists\n  hint: choose a folder that does not exist yet\n"
    )


def test_a_damaged_jobctl_is_one_error(job) -> None:
    demo = job()
    program = bytearray((demo.artifact / "jobctl").read_bytes())
    modules = zipfile.ZipFile(demo.artifact / "jobctl").infolist()
    (position,) = (info.header_offset for info in modules if info.filename == "jobc_runtime/verbs/status.py")
    program[position + 200] ^= 1
    (demo.artifact / "jobctl").write_bytes(program)
    code, output = demo.run("status", XDG_CACHE_HOME=str(demo.artifact / "cache"))
    assert code == 1 and output.startswith(f"error: {demo.artifact}/jobctl is damaged: "), output
    assert output.endswith("  hint: compile the job again\n") and output.count("\n") == 2
