"""The launch line of launch.sh as the command of a launcher, and what a node reports before it has ranks."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.runtime.node import node_environment, node_failure
from jobc.runtime.node.job_secrets import read_job_secrets
from jobc.runtime.node.node_environment import (
    cache_folder,
    code_folder,
    private_cache_folder,
    require_shared_memory,
    safe_path_option,
)
from jobc.runtime.node.node_failure import NodeFailure, record_failure
from jobc.runtime.node.node_settings import NodeSettings
from jobc.runtime.ranks import launchers
from jobc.runtime.run_folder.run_secrets import secrets_folder_of_run

SETTINGS = NodeSettings(
    tree={}, name="demo", run_folder="demo", nodes=2, procs=4, gpus=0, gpu_type=None, launcher="torchrun",
    network_profile="auto", interface="", rendezvous_port=0, rendezvous_timeout_s=60, max_restarts=0, max_requeues=0,
    threads=1, grace_s=30, time_limit_s=0, code_kind="snapshot", code_root="src", repository=None, commit=None,
    python="python3", uses_trainer=False, parallel="ddp", shm_bytes=None, secrets={}, data=None, downloads=None,
    compiled=None, storage="shared", store=None, container=None,
)  # fmt: skip
HEAD = {
    "JOBC_NODE_RANK": "0",
    "JOBC_HEAD_ADDR": "n0",
    "JOBC_HEAD_PORT": "29500",
    "JOBC_RUN_DIR": "/r",
    "JOBC_RUN_ID": "a",
}
COMMAND = ["python3", "train.py", "cost=$5"]


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "jobctl"), "launch"])
    return tmp_path / "jobctl"


def words(line: list[str], **environ: str) -> tuple[list[str], dict[str, str]]:
    launcher, command = launchers.split_launch_line([*line, "--", *COMMAND])
    variables = {**HEAD, **environ}
    return launchers.launcher_command(launcher, command, SETTINGS, variables), variables


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ((), "{0}/bin/python3 -m pip install deepspeed"),
        (
            ("lib/EXTERNALLY-MANAGED",),
            "python=venv python.path=FOLDER, where FOLDER is a virtual environment that has ",
        ),
        (("lib/EXTERNALLY-MANAGED", "pyvenv.cfg"), "{0}/bin/python3 -m pip install deepspeed"),
    ],
)
def test_the_hint_of_a_missing_module_works_with_a_distributions_python(
    files: tuple[str, ...], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin/python3", "lib/any", *files):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(node_environment, "_module_folders", lambda modules: {"torch": [""]})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python3"))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "lib"))
    (missing,) = node_environment.missing_module_failures(SETTINGS._replace(parallel="deepspeed"))
    assert missing.hint.startswith(hint.format(tmp_path))


def test_torchrun_gets_the_addresses_of_the_run_and_runs_the_wrapped_command(program: Path) -> None:
    found, variables = words(["torchrun", "--master-addr=$JOBC_HEAD_ADDR", "--rdzv-conf=is_host=$JOBC_IS_HEAD"])
    rank = [sys.executable, "-I", "-S", str(program), "rank", "--", sys.executable, "train.py", "cost=$$5"]
    options = ["--master-addr=n0", "--rdzv-conf=is_host=1", "--no-python", "--"]
    assert found == [sys.executable, *safe_path_option(), "-m", "torch.distributed.run", *options, *rank]
    assert variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "30" and "JOBC_IS_HEAD" not in variables


def test_other_nodes_wait_until_node_0_answers(program: Path) -> None:
    found, _ = words(["torchrun"], JOBC_NODE_RANK="1")
    assert found[: found.index("-m")][:9] == [
        sys.executable, "-I", "-S", str(program), "reach", "n0", "29500", "60", "--",
    ]  # fmt: skip


def test_spawn_and_srun_start_ranks_without_doubled_dollars(program: Path) -> None:
    assert words(["spawn"])[0][4:7] == ["spawn", "--", sys.executable]
    assert words(["srun"])[0][4:8] == ["spawn", "--tasks", "60", "--"]
    assert words(["spawn"])[0][-1] == "cost=$5"


def test_torch_distributed_launch_runs_the_program_of_the_wrapper(program: Path) -> None:
    found, _ = words(["python3", "-m", "torch.distributed.launch", "--node_rank=$JOBC_NODE_RANK"])
    assert found[found.index("torch.distributed.launch") :][1:4] == ["--node_rank=0", str(program), "rank"]


def test_accelerate_that_starts_one_process_gets_the_command_as_it_is(tmp_path: Path) -> None:
    line = [
        "accelerate",
        "launch",
        "--deepspeed_config_file",
        "$JOBC_DEEPSPEED_JSON",
        "--machine_rank",
        "$JOBC_NODE_RANK",
    ]
    (tmp_path / "accelerate.yaml").write_text("distributed_type: NO\n")
    found, variables = words(line, JOBC_ARTIFACT=str(tmp_path), JOBC_DEEPSPEED_JSON="/d.json")
    assert found[-1] == "cost=$5" and "--deepspeed_config_file" not in found and variables["WORLD_SIZE"] == "1"
    (tmp_path / "accelerate.yaml").write_text("distributed_type: DEEPSPEED\n  deepspeed_config_file: deepspeed.json\n")
    found, _ = words(line, JOBC_ARTIFACT=str(tmp_path), JOBC_DEEPSPEED_JSON="/d.json")
    assert found[-1] == "cost=$$5" and found[found.index("--deepspeed_config_file") + 1] == "/d.json"


def test_mpirun_starts_all_ranks_from_node_0() -> None:
    found, variables = words(["mpirun", "--host", "$JOBC_MPI_HOSTS"], GLOO_SOCKET_IFNAME="eth0")
    assert found[4:9] == ["mpi", "--head", "60", "--", "mpirun"]
    assert found[10] == f"{os.uname().nodename}:4,jobc-1:4" and variables["OMPI_MCA_btl_tcp_if_include"] == "eth0"
    assert words(["mpirun"], JOBC_NODE_RANK="1")[0][4:] == ["mpi", "--node", "60"]


def test_a_launch_line_that_was_edited_wrongly_is_reported() -> None:
    with pytest.raises(NodeFailure, match="no command after --"):
        launchers.split_launch_line(["torchrun", "train.py"])
    with pytest.raises(NodeFailure, match="begins with mpiexec"):
        words(["mpiexec"])


# ---- secrets and folders


def test_a_secret_comes_from_the_environment_a_saved_file_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run = tmp_path / "run"
    saved = secrets_folder_of_run(run) / "SAVED"
    saved.parent.mkdir(parents=True)
    saved.write_text("two\n")
    (tmp_path / "token").write_text("three\n\n")
    kinds = {"A": ("env", "FROM"), "B": ("env", "SAVED"), "C": ("file", "~/token")}
    references = {name: {"kind": kind, "ref": ref} for name, (kind, ref) in kinds.items()}
    environ = {"FROM": "one", "JOBC_RUN_DIR": str(run), "HOME": str(tmp_path)}
    assert read_job_secrets(references, environ, "train") == {"A": "one", "B": "two", "C": "three"}


@pytest.mark.parametrize(
    ("kind", "title"), [("env", "variable X is not set"), ("file", "file X is empty"), ("k8s", "not set")]
)
def test_a_missing_secret_is_named(kind: str, title: str) -> None:
    with pytest.raises(NodeFailure, match=title):
        read_job_secrets({"A": {"kind": kind, "ref": "X"}}, {}, "train")


def test_the_code_is_the_copy_in_the_run_or_lies_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "run").mkdir()
    project, run = str(tmp_path), str(tmp_path / "run")
    assert code_folder(SETTINGS, project, run, tmp_path, "train") == f"{project}/src"
    (tmp_path / "run/code").mkdir()
    assert code_folder(SETTINGS, project, run, tmp_path, "train") == f"{run}/code"
    with pytest.raises(NodeFailure, match="no code folder /absent/src"):
        code_folder(SETTINGS, "/absent", "", tmp_path, "train")
    none = SETTINGS._replace(code_kind="none")
    assert code_folder(none, "/absent", "", tmp_path, "train") == str(tmp_path)


def test_cache_folders_are_created_and_those_for_code_are_private(tmp_path: Path) -> None:
    assert cache_folder(str(tmp_path), "a/$UID", "k", {}) == f"{tmp_path}/a/{os.geteuid()}"
    folder = Path(private_cache_folder(str(tmp_path), "b", "k", {}))
    assert folder.stat().st_mode & 0o077 == 0
    (tmp_path / "file").touch()
    with pytest.raises(NodeFailure, match="cannot be used"):
        cache_folder(str(tmp_path), "file/x", "caches.downloads", {})


def test_shm_that_is_too_small_is_reported() -> None:
    require_shared_memory(1)
    with pytest.raises(NodeFailure, match="/dev/shm has"):
        require_shared_memory(1 << 60)


# ---- failures


def test_a_failure_is_recorded_for_the_other_nodes_and_the_first_one_stays(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    environ = {"JOBC_RUN_DIR": str(tmp_path), "JOBC_ATTEMPT": "0", "JOBC_NODES": "2", "JOBC_NODE_RANK": "1"}
    record_failure(environ, "train", NodeFailure(65, "no torch"))
    record_failure({**environ, "JOBC_NODE_RANK": "0"}, "train", NodeFailure(71, "late"))
    assert (tmp_path / "exit/0/first").read_text().startswith("65\nnode=1\n")
    assert (tmp_path / "exit/0/node_00").read_text() == "71\nreason=late\n"
    assert "exit=65\nreason=no torch\n" in (tmp_path / "state/node_01").read_text()


def test_preflight_and_shells_record_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    environ = {"JOBC_RUN_DIR": str(tmp_path), "JOBC_ATTEMPT": "0"}
    for payload in ("preflight", "shell", "check"):
        record_failure(environ, payload, NodeFailure(65, "no torch"))
    assert not (tmp_path / "exit").exists() and not list((tmp_path / "state").iterdir())


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (("1", "module load cuda"), "setting up the environment failed (exit 1): module load cuda"),
        (("1", ". .venv/bin/activate"), "no .venv/bin/activate in "),
        (("1", ". /no/venv/bin/activate"), f"no /no/venv/bin/activate on {os.uname().nodename}\n"),
        (("127", "python3.13"), "python not found: python3.13"),
        (("127", "/no/such/python"), "python not found: /no/such/python"),
        (("3", "false", "40"), "setup failed (exit 3): false"),
        (("3", "exit"), "setup exited with 3"),
        (("65", "cd /w"), "container.workdir does not exist in the container"),
    ],
)  # fmt: skip
def test_the_line_of_launch_sh_that_failed_is_explained(
    arguments: tuple[str, ...],
    title: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert node_failure.main(["0", "check", *arguments]) == 65
    assert capsys.readouterr().err.startswith(f"error: {title}")
    assert node_failure.main(["0", "preflight", *arguments]) == 0
    assert capsys.readouterr().out.startswith("FAIL\tenvironment\t" + title.strip())


def test_a_node_without_environment_modules_is_reported_with_the_line_that_needs_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODULESHOME", "/no")
    (tmp_path / "launch.sh").write_text("set -e\nmodule load cuda/99\nmodule load gcc\n")
    assert node_failure.main(["0", "check", "1", '. "${MODULESHOME:-/usr/share/modules}/init/bash"', "40"]) == 65
    why = f"environment modules are not installed on {os.uname().nodename} (no /no/init/bash)"
    assert capsys.readouterr().err.startswith(f"error: {why}, needed by module load cuda/99\n  hint: ")


def test_a_failure_before_the_variables_are_set_is_the_first_one_of_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line `module load` runs before `jobctl node` has printed JOBC_NODES; the other nodes must not wait."""
    artifact = write_compiled_job(compile_job(CompileRequest(("backend=ssh", "nodes=2", "hosts=[a,b]"))), tmp_path)
    (tmp_path / "run/state").mkdir(parents=True)
    monkeypatch.setattr("sys.argv", [str(artifact / "jobctl")])
    monkeypatch.setenv("JOBC_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("JOBC_NODES", raising=False)
    assert node_failure.main(["b", "train", "1", "module load cuda"]) == 65
    assert (tmp_path / "run/exit/0/first").read_text().startswith("65\nnode=1\n")
