"""The options that a job on Slurm is queued with: dependencies, devices, cluster. No Slurm runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import Request

RT = Path(__file__).parents[2] / "trainer" / "rt"


def files(*words: str) -> dict[str, str]:
    compiled = compile_job(Request(("backend=slurm", "nodes=2", *words), ("./solver",)))
    return {artifact.path: artifact.text for artifact in compiled.artifacts}


def directives(*words: str) -> list[str]:
    lines = files(*words)["job.sbatch"].splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH --")]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("[12]", "afterok:12"),
        ("[12,13_4]", "afterok:12:13_4"),
        ("[afterany:12]", "afterany:12"),
        ("[12,afternotok:13:14,singleton]", "afterok:12,afternotok:13:14,singleton"),
    ],
)
def test_dependencies_are_those_of_sbatch(after: str, expected: str) -> None:
    assert f"--dependency={expected}" in directives(f"queue.after={after}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gpus=2", "cpus=8"), ["--gpus-per-node=2", "--gres=nvme:1,fpga:2"]),
        (("gpus=2", "cpus=8", "backend.gpus_as=gres"), ["--gres=gpu:2,nvme:1,fpga:2"]),
        (("backend.gpus_as=gres",), ["--gres=nvme:1,fpga:2"]),
    ],
)
def test_other_devices_stand_beside_the_gpus(words: tuple[str, ...], expected: list[str]) -> None:
    lines = directives("backend.gres=[nvme:1,fpga:2]", *words)
    assert [line for line in lines if "gres" in line or "gpus" in line] == expected


def in_bash(script: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-uc", script], check=False, capture_output=True, text=True, env={"PATH": os.environ["PATH"], **env}
    )
    return done.returncode, done.stdout + done.stderr


def dependency_of(typed: list[str], *words: str) -> tuple[int, str]:
    """The --dependency that submit.sh passes to sbatch for each --after."""
    script = f"{files(*words)['queue.sh']}\ndie() {{ echo $2; exit $1; }}\nafter=()\n"
    script += "".join(f"add_dependency '{text}'\n" for text in typed)
    return in_bash(script + 'echo "${after[*]}"')


def test_ids_that_are_known_at_submit_time_are_added_to_those_of_the_spec() -> None:
    assert dependency_of(["12,13", "afterany:14"]) == (0, "--dependency=afterok:12:13,afterany:14\n")
    both = dependency_of(["singleton"], "queue.after=[7]")
    assert both == (0, "--dependency=afterok:7,singleton\n")
    assert dependency_of([], "queue.after=[7]") == (0, "\n")  # the line of job.sbatch counts


@pytest.mark.parametrize("text", ["x", "12; rm", "afterok:", "afterfail:12", "--wrap=x"])
def test_what_is_no_dependency_is_refused_before_a_run_exists(text: str) -> None:
    code, said = dependency_of([text])
    assert code == 2 and said == f"--after takes ID, KIND:ID or singleton, not {text}\n"


def test_every_script_asks_the_cluster_that_queues_the_job_and_the_job_its_own() -> None:
    made = files("backend.cluster=west")
    assert "--clusters=west" in directives("backend.cluster=west")
    assert "export SLURM_CLUSTERS=west" in made["engine.sh"]
    code, said = in_bash(f"{made['queue.sh']}\nclean env", SLURM_CLUSTERS="west", OTHER="x")
    assert code == 0 and "SLURM_CLUSTERS=west" in said and "OTHER" not in said
    job = made["job.sbatch"]
    assert job.index('/engine.sh"') < job.index("unset SLURM_CLUSTERS") < job.index("\nsrun ")


@pytest.mark.parametrize(
    ("installed", "command", "prefix"),
    [
        (("apptainer", "singularity"), "apptainer", "APPTAINERENV_"),
        (("singularity",), "singularity", "SINGULARITYENV_"),
    ],
)
def test_singularity_takes_the_place_of_an_apptainer_that_is_not_there(
    tmp_path: Path, installed: tuple[str, ...], command: str, prefix: str
) -> None:
    for name in installed:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "x.sif").write_text("")
    script = f"""
      source {RT}/container.sh
      PATH={tmp_path} image={tmp_path}/x.sif gpus=0 binds=() names=(TOKEN) container_options=() TOKEN=abc
      need_apptainer
      apptainer_words
      printf '%s\\n' "${{options[0]}}" "${prefix}TOKEN"
    """
    assert in_bash(script) == (0, f"{tmp_path}/{command}\nabc\n")


def test_a_node_without_either_says_what_loads_it(tmp_path: Path) -> None:
    stubs = "fail() { echo $2; exit $1; }; uname() { echo n1; }"
    assert in_bash(f"source {RT}/container.sh; {stubs}; PATH={tmp_path}; need_apptainer") == (
        65,
        "no apptainer or singularity on n1\n",
    )
