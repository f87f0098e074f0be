"""Slurm's and MPI's variables in a rank whose node's ranks were all started by one task or process."""

from __future__ import annotations

import pytest

from jobc.runtime.ranks import spawn
from jobc.runtime.ranks.engine_variables import make_engine_variables_consistent

NODE = {"JOBC_NODES": "2", "JOBC_PROCS": "4", "JOBC_NODE_RANK": "1", "JOBC_HEAD_ADDR": "a", "JOBC_HEAD_PORT": "1"}
TASK = {  # of srun, which started one for each node
    "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NODEID": "1",
    "SLURM_NNODES": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_NPROCS": "2",
    "SLURM_NTASKS_PER_NODE": "1", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_STEP_NUM_TASKS": "2", "SLURM_GTIDS": "1", "SLURM_CPUS_PER_TASK": "16",
}  # fmt: skip


def seen(local_rank: int, **variables: str) -> dict[str, str]:
    """Variables of a rank on node 1 of 2 with 4 ranks each, without torchrun's."""
    torchrun = spawn.rank_environments(NODE)[local_rank]
    environment = {**variables, **torchrun}
    make_engine_variables_consistent(environment)
    return {name: value for name, value in environment.items() if name not in torchrun}


def test_the_task_of_a_node_becomes_one_task_for_each_rank() -> None:
    assert seen(2, **TASK) == {
        **TASK, "SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_NTASKS": "8", "SLURM_NPROCS": "8",
        "SLURM_NTASKS_PER_NODE": "4", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
        "SLURM_STEP_NUM_TASKS": "8", "SLURM_GTIDS": "4,5,6,7", "SLURM_CPUS_PER_TASK": "4",
    }  # fmt: skip


def test_what_is_consistent_already_stays() -> None:
    once = seen(2, **TASK)
    assert seen(2, **once) == once
    assert seen(2, **TASK, SLURM_TRES_PER_TASK="cpu:16") == once


def test_a_shell_of_salloc_gets_what_libraries_require() -> None:
    """pytorch-ignite requires SLURM_PROCID, Lightning SLURM_NTASKS_PER_NODE; what belongs to a step is not made up."""
    after = seen(3, SLURM_JOB_ID="7", SLURM_NTASKS="1")
    assert (after["SLURM_PROCID"], after["SLURM_LOCALID"], after["SLURM_NTASKS_PER_NODE"]) == ("7", "3", "4")
    assert after["SLURM_NTASKS"] == "8" and not any(name.startswith("SLURM_STEP_") for name in after)


def test_no_variable_of_slurm_appears_without_slurm() -> None:
    assert seen(2, PATH="/bin") == {"PATH": "/bin"}


OMPI = {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_UNIVERSE_SIZE": "2", "PMIX_NAMESPACE": "x", "PMIX_RANK": "1"}


@pytest.mark.parametrize(
    ("variables", "kept"),
    [
        ({"OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_SIZE": "8", **OMPI}, True),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", **OMPI}, False),
        ({"PMI_RANK": "6", "PMI_SIZE": "8", "PMI_FD": "9"}, True),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9", "MPI_LOCALRANKID": "0"}, False),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "0"}, False),
        ({"PMIX_RANK": "6", "PMIX_NAMESPACE": "x", **TASK, "SLURM_STEP_NUM_TASKS": "8"}, True),
        ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "x", **TASK}, False),
    ],
)
def test_mpi_stays_where_it_counts_the_ranks(variables: dict[str, str], kept: bool) -> None:
    mpi = {name for name in variables if not name.startswith("SLURM_")} - {"OMPI_UNIVERSE_SIZE"}
    assert (mpi & seen(2, **variables).keys()) == (mpi if kept else set())
