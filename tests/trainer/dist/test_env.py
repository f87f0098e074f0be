"""The environment contract is read completely or rejected completely."""

import dataclasses
from pathlib import Path

import pytest

from jobc.runtime.exit_codes import DATA_BROKEN
from jobc.runtime.system.reserved_variables import is_reserved
from jobc.trainer.dist.env import LAUNCHER_NAMES, TABLE, RankEnvironment, field_name_of_variable, parse_environment
from jobc.trainer.lifecycle.errors import BrokenInput

LAUNCHED = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
}


def test_users_can_set_no_variable_of_the_contract() -> None:
    assert [row.name for row in TABLE if not is_reserved(row.name)] == []


def test_no_launcher_means_one_process() -> None:
    env = parse_environment({"PATH": "/bin", "MASTER_ADDR": "somewhere"})
    assert (env.rank, env.world_size, env.local_rank, env.local_world_size) == (0, 1, 0, 1)


def test_torchruns_names_are_read() -> None:
    env = parse_environment(LAUNCHED)
    assert (env.rank, env.world_size, env.group_rank, env.master_port) == (3, 4, 1, 29500)


def test_optional_values_have_their_type() -> None:
    env = parse_environment({"JOBC_RUN_DIR": "/runs/a b", "JOBC_ATTEMPT": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert (env.run_dir, env.attempt, env.torchelastic_use_agent_store) == (Path("/runs/a b"), 2, True)


def test_an_empty_value_is_not_set() -> None:
    assert parse_environment({"RANK": "", "JOBC_INIT_FROM": ""}).init_from is None


@pytest.mark.parametrize("missing", LAUNCHER_NAMES)
def test_a_half_set_launcher_is_refused(missing: str) -> None:
    with pytest.raises(BrokenInput) as caught:
        parse_environment({name: value for name, value in LAUNCHED.items() if name != missing})
    assert caught.value.code == DATA_BROKEN
    assert [line.split(":")[0] for line in caught.value.details] == [missing]


def test_everything_wrong_is_reported_at_once() -> None:
    broken = {**LAUNCHED, "RANK": "one", "MASTER_PORT": "70000", "JOBC_ATTEMPT": "-1"}
    with pytest.raises(BrokenInput) as caught:
        parse_environment(broken, needed=("JOBC_TRAIN_JSON",))
    names = {line.split(":")[0] for line in caught.value.details}
    assert names == {"RANK", "MASTER_PORT", "JOBC_ATTEMPT", "JOBC_TRAIN_JSON"}


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK"])
def test_a_rank_outside_its_world_is_refused(name: str) -> None:
    with pytest.raises(BrokenInput, match=f"{name}: 4 must be less than"):
        parse_environment({**LAUNCHED, name: "4"})


def test_every_value_is_of_a_variable_in_the_table() -> None:
    names = {field_name_of_variable(row.name) for row in TABLE if not row.like}
    assert {field.name for field in dataclasses.fields(RankEnvironment)} <= names


# ---- other launchers

MEET = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
SRUN = {  # task 3 of `srun --nodes=2 --ntasks=4`
    "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_NODEID": "1", "SLURM_STEP_NODELIST": "node[3-4]", "SLURM_JOB_ID": "12001",
}  # fmt: skip
AGENT = {
    **SRUN,
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
}
BATCH = {name: value for name, value in {**SRUN, "SLURM_PROCID": "0"}.items() if "_STEP_" not in name}
MPIRUN = {f"OMPI_COMM_WORLD_{name}": value for name, value in
          {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}.items()}  # fmt: skip
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
PALS = {"PMI_RANK": "3", "PMI_SIZE": "4", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "2"}
SKYPILOT = {
    "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
    "SKYPILOT_TASK_ID": "sky-1", "SKYPILOT_NUM_GPUS_PER_NODE": "1",
}  # fmt: skip
TORCHRUN = {**LAUNCHED, "TORCHELASTIC_USE_AGENT_STORE": "True"}


@pytest.mark.parametrize("environ", [SRUN, {**MPIRUN, **MEET}, {**HYDRA, **MEET}, {**PALS, **MEET}])
def test_a_rank_of_another_launcher_is_that_of_torchrun(environ: dict[str, str]) -> None:
    env = parse_environment(environ)
    assert (env.rank, env.world_size, env.local_rank, env.local_world_size, env.group_rank) == (3, 4, 1, 2, 1)
    meet = ("node3", 20001) if environ is SRUN else ("node1", 29500)
    assert (env.master_addr, env.master_port) == meet


def test_two_steps_of_one_job_meet_at_two_ports() -> None:
    steps = [
        [parse_environment({**SRUN, "SLURM_STEP_ID": step, "SLURM_PROCID": rank}) for rank in "03"]
        for step in ("0", "1", "2")
    ]
    ports = [{env.master_port for env in ranks} for ranks in steps]
    assert ports[0] == {20001} and all(len(of_step) == 1 for of_step in ports)  # its ranks agree
    assert len(set.union(*ports)) == 3
    assert parse_environment({**SRUN, **MEET, "SLURM_STEP_ID": "1"}).master_port == 29500  # what is set counts


def test_skypilot_starts_a_rank_on_each_node() -> None:
    env = parse_environment(SKYPILOT)
    assert (env.rank, env.world_size, env.local_world_size, env.master_addr) == (1, 2, 1, "10.0.0.1")
    with pytest.raises(BrokenInput, match="8 GPUs: use torchrun"):
        parse_environment({**SKYPILOT, "SKYPILOT_NUM_GPUS_PER_NODE": "8"})
    assert parse_environment({**SKYPILOT, "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1"}).world_size == 1


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({**TORCHRUN, **AGENT}, 3),  # srun torchrun
        ({**TORCHRUN, **AGENT, "SLURM_PROCID": "0"}, 3),  # torchrun's c10d numbers the nodes as they come
        ({**LAUNCHED, **SRUN}, 3),  # a script that exports RANK=$SLURM_PROCID
        ({**TORCHRUN, "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2"}, 3),
        ({**MPIRUN, **MEET, **AGENT, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, 3),  # mpirun's daemons by srun
        ({**MPIRUN, **MEET, **BATCH}, 3),
        ({**HYDRA, **SRUN}, 3),  # srun --mpi=pmi2
        ({**SRUN, "WORLD_SIZE": "4", **MEET}, 3),
        ({**LAUNCHED, **AGENT, "SLURM_STEP_NUM_TASKS": "3", "JOBC_LAUNCHER": "jobc"}, 3),
        ({**LAUNCHED, "RANK": "0", **SRUN, "JOBC_LAUNCHER": "srun"}, 3),
        (BATCH, 0),
    ],
)
def test_a_launcher_below_another_is_no_contradiction(environ: dict[str, str], rank: int) -> None:
    assert parse_environment(environ).rank == rank


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({**LAUNCHED, "RANK": "0", **SRUN}, ["RANK=0 WORLD_SIZE=4", "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4"]),
        ({**TORCHRUN, "WORLD_SIZE": "2", "RANK": "1", **AGENT}, ["WORLD_SIZE=2", "SLURM_STEP_NUM_TASKS=2"]),
        ({**MPIRUN, **MEET, **SRUN, "SLURM_PROCID": "2"}, ["OMPI_COMM_WORLD_RANK=3", "SLURM_PROCID=2"]),
        ({**SRUN, "WORLD_SIZE": "8"}, ["WORLD_SIZE=8", "SLURM_STEP_NUM_TASKS=4"]),
        ({"OMPI_COMM_WORLD_RANK": "3"}, ["mpirun set only OMPI_COMM_WORLD_RANK"]),
        ({**SKYPILOT, "SKYPILOT_NODE_IPS": " \n"}, ["MASTER_ADDR: not set"]),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "abc", **MEET}, ["LOCAL_RANK"]),
        ({**MPIRUN}, ["MASTER_ADDR: not set", "MASTER_PORT: not set", "OMPI_COMM_WORLD_RANK"]),
    ],
)
def test_launchers_that_disagree_or_say_half_are_refused_and_both_named(
    environ: dict[str, str], names: list[str]
) -> None:
    with pytest.raises(BrokenInput) as caught:
        parse_environment(environ)
    assert all(name in str(caught.value) for name in names) and caught.value.code == DATA_BROKEN


@pytest.mark.parametrize("word", ["openmpi", "slurm", "pmi", "SRUN", "none"])
def test_a_launcher_that_nobody_knows_is_refused_with_the_words_there_are(word: str) -> None:
    with pytest.raises(BrokenInput) as caught:
        parse_environment({**MPIRUN, **MEET, "JOBC_LAUNCHER": word})
    known = "jobc, torchrun, mpirun, mvapich, PMI, srun, skypilot"
    assert list(caught.value.details) == [f"JOBC_LAUNCHER: expected one of {known}, found '{word}'"]
    assert caught.value.code == DATA_BROKEN


@pytest.mark.parametrize(
    ("environ", "trusted", "said"),
    [
        ({**TORCHRUN, **BATCH}, "srun", "SLURM_PROCID is set, but SLURM_STEP_NUM_TASKS is not"),
        (LAUNCHED, "srun", "neither SLURM_PROCID nor SLURM_STEP_NUM_TASKS is set"),
        (SRUN, "mpirun", "neither OMPI_COMM_WORLD_RANK nor OMPI_COMM_WORLD_SIZE is set"),
        ({"PMI_SIZE": "4"}, "PMI", "PMI_SIZE is set, but PMI_RANK is not"),
        ({**MPIRUN, **MEET}, "torchrun", "neither RANK nor WORLD_SIZE is set"),
        ({}, "torchrun", "neither RANK nor WORLD_SIZE is set"),
        ({**MPIRUN, **MEET}, "jobc", "neither RANK nor WORLD_SIZE is set"),  # mpirun in jobctl shell of a job
    ],
)
def test_a_trusted_launcher_that_has_not_counted_is_no_world_of_one(
    environ: dict[str, str], trusted: str, said: str
) -> None:
    with pytest.raises(BrokenInput) as caught:
        parse_environment({**environ, "JOBC_LAUNCHER": trusted})
    assert list(caught.value.details) == [f"JOBC_LAUNCHER={trusted}: {said}"]
    assert caught.value.code == DATA_BROKEN


@pytest.mark.parametrize("environ", [{}, {**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}])
def test_a_shell_in_a_job_has_no_launcher_and_is_one_process(environ: dict[str, str]) -> None:
    assert parse_environment({**environ, "JOBC_LAUNCHER": "jobc"}).world_size == 1
