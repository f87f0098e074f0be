"""Arguments and variables that are given to jobctl submit for one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.compiler.plan.shell_quoting import ShellCode
from jobc.runtime.run_folder.submitted_values import NO_VALUES, SubmittedValues, checked_values
from jobc.runtime.system.failure import Failure

ODD = ("--name", "it's \u00e9\n$HOME", "--", "")


def test_the_ranks_get_them_in_every_attempt_and_status_shows_them(job):
    setup = 'echo "$LR $PATH" >>"$JOBC_RUN_DIR/setup"'
    demo = job(env={"LR": "1", "PATH": "/from/env"}, setup_user_lines=(ShellCode(setup),))
    demo.plan.command += ("record",)
    demo.write_artifact()
    code, output = demo.run(
        "submit", "--run-id", "a", "--env", "LR=1e-3", "--env=PATH=/from/submit", "--", "only", "7", *ODD
    )
    assert code == 0, output
    for attempt in range(2):
        arguments, _, rest = demo.mark("record.0").partition("\0--\0")
        assert arguments.split("\0")[-3:] == ["7", *ODD[:2]]
        variables = rest.split("\0")
        assert "LR=1e-3" in variables and f"JOBC_ATTEMPT={attempt}" in variables
        (path,) = [value for value in variables if value.startswith("PATH=")]
        assert path.startswith("PATH=/from/submit:/from/env:/from/submit:")
        seen = (demo.runs / "a/setup").read_text().splitlines()[-1]
        assert seen.startswith("1e-3 /from/submit:"), "the setup lines get them too"
        if not attempt:
            assert demo.run("submit", "--resume", "a")[0] == 0
    told = json.loads(demo.run("status", "--format", "json")[1])["submitted_with"]
    assert told.startswith("--env LR=1e-3 --env PATH=/from/submit -- only 7 --name")
    assert f"  submitted with: {told}\n" in demo.run("status")[1]
    assert demo.run("submit", "--fork", "a", "--run-id", "b")[0] == 0
    assert "submitted with" not in demo.run("status", "--run", "b")[1]
    inherited = SubmittedValues((), {"LR": "7"}).encode_for_variable()
    assert demo.run("submit", "--run-id", "c", JOBC_SUBMITTED=inherited)[0] == 0
    assert "LR=1" in demo.mark("record.0").split("\0"), "a value inherited from another job is not used"


def test_a_run_that_exists_takes_no_other_values(job):
    demo = job()
    assert demo.run("submit", "--run-id", "a")[0] == 0
    for words in (("--env", "A=1"), ("--", "x")):
        code, output = demo.run("submit", "--resume", "a", *words)
        assert code == 2 and "cannot be given for an existing run" in output and "--fork" in output
        code, output = demo.run(str(demo.runs / "a/artifact/0/jobctl"), "submit", *words)
        assert code == 2 and "cannot be given for an existing run" in output
    assert [path.name for path in (demo.runs / "a/artifact").iterdir()] == ["0"]


@pytest.mark.parametrize(
    ("assignments", "arguments", "why"),
    [
        (["A"], [], "takes NAME=VALUE, not A"),
        (["1A=x"], [], "takes NAME=VALUE"),
        (["JOBC_RUN_DIR=x"], [], "jobc or the launcher sets this variable"),
        (["RANK=3"], [], "jobc or the launcher sets this variable"),
        (["SLURM_PROCID=3"], [], "jobc or the launcher sets this variable"),
        (["TORCHELASTIC_RUN_ID=x"], [], "jobc or the launcher sets this variable"),
        (["PET_NNODES=2"], [], "jobc or the launcher sets this variable"),
        (["ACCELERATE_USE_CPU=1"], [], "jobc or the launcher sets this variable"),
        (["T=x"], [], "T is one of this job's secrets"),
        (["HF_TOKEN=hf_x"], [], "--env HF_TOKEN: the name suggests a secret"),
        (["wandb_api_key=x"], [], "--env wandb_api_key: the name suggests a secret"),
        (["DB_PASSWORD=x"], [], "--env DB_PASSWORD: the name suggests a secret"),
        (["A=" + "x" * 33000], [], "exceed 32768 bytes"),
        ([], ["--lr"], "the bundled trainer takes no arguments"),
    ],
)
def test_values_that_a_job_cannot_use_are_refused(assignments: list[str], arguments: list[str], why: str) -> None:
    with pytest.raises(Failure, match=why) as refused:
        checked_values(assignments, arguments, {"uses_trainer": True, "secrets": {"T": {}}})
    assert refused.value.code == 2 and "hf_x" not in refused.value.title + refused.value.hint


@pytest.mark.parametrize("text", ["", "arguments=7\nenv=x\n", "arguments={}\nenv=[]\n", f"arguments={'[' * 60000}\n"])
def test_a_file_that_jobc_did_not_write_has_no_values(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/run").write_text(text)
    assert SubmittedValues.read(tmp_path) == NO_VALUES


@pytest.mark.parametrize(
    ("content", "why", "code"),
    [
        (None, "state/run does not exist", 1),
        (b"", "state/run is damaged", 65),
        (b"job=demo\n" + bytes(40), "state/run is damaged", 65),
        (b'job=demo\narguments=["--lr"', "state/run: arguments= is damaged", 65),
        (b"job=demo\narguments=[1]\n", "state/run: arguments= is damaged", 65),
        (b"job=demo\nenv=[]\n", "state/run: env= is damaged", 65),
    ],
)
def test_a_node_does_not_train_without_the_runs_values(
    tmp_path: Path, content: bytes | None, why: str, code: int
) -> None:
    (tmp_path / "state").mkdir()
    if content is not None:
        (tmp_path / "state/run").write_bytes(content)
    with pytest.raises(Failure, match=why) as refused:
        SubmittedValues.take({"JOBC_RUN_DIR": str(tmp_path)}, is_training=True)
    assert refused.value.code == code
    SubmittedValues.take({"JOBC_RUN_DIR": str(tmp_path)})  # such as jobctl shell


def test_the_path_of_the_project_need_not_be_text(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/run").write_bytes(b'job=demo\nproject=/\xff\narguments=["1"]\n')
    assert SubmittedValues.take({"JOBC_RUN_DIR": str(tmp_path)}, is_training=True).arguments == ("1",)


def test_nodes_without_the_run_folder_get_them_in_a_variable() -> None:
    values = SubmittedValues(ODD, {"A": "it's \u00e9\n$HOME"})
    environ = {"JOBC_SUBMITTED": values.encode_for_variable()}
    assert SubmittedValues.take(environ) == values and not environ
    assert NO_VALUES.encode_for_variable() == "" and SubmittedValues.take({}) == NO_VALUES


def test_a_listed_host_ignores_values_from_another_job(tmp_path: Path) -> None:
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "hosts.txt").write_text("a\n")
    (artifact / "launch.sh").write_text("echo sent=${JOBC_SUBMITTED-}\n")
    program = (
        f"import sys; sys.argv[0] = '{artifact}/jobctl'; from jobc.runtime.node.task import main; main(sys.argv[1:])"
    )
    words = [sys.executable, "-c", program, "", "0", "a", "shell"]
    environ = {**os.environ, "JOBC_SUBMITTED": "e30="}
    assert subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout == "sent=\n"


@pytest.mark.parametrize("text", ["", "?", "/w==", "MQ==", "e30="])
def test_a_variable_that_jobc_did_not_set_has_no_values(text: str) -> None:
    assert SubmittedValues.take({"JOBC_SUBMITTED": text}) == NO_VALUES


def test_variables_that_jobc_only_has_a_default_for_can_be_set() -> None:
    assignments = ("OMP_NUM_THREADS=4", "PYTHONPATH=/lib")
    assert checked_values(assignments, (), {}).env == {"OMP_NUM_THREADS": "4", "PYTHONPATH": "/lib"}


def test_no_file_sets_a_variable_of_jobc(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/run").write_text('env={"JOBC_RUN_DIR": "x", "A": 1}\n')
    assert SubmittedValues.read(tmp_path).env == {"A": "1"}
