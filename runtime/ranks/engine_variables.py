"""Make the engine's variables in a rank, such as SLURM_PROCID and PMI_RANK, consistent with RANK and WORLD_SIZE.

In:  a rank's environment: torchrun's variables, and those that Slurm or an MPI launcher set for the node's launcher.
Out: Slurm's variables, as srun would set them with one task per rank; and MPI's variables if they match the ranks.

One Slurm task, or one MPI process, may start all of a node's ranks. Libraries in a rank compare both sets of variables:
- pytorch-ignite requires SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS in addition to SLURM_JOB_ID, and they must match
  RANK, LOCAL_RANK and WORLD_SIZE (ignite/distributed/comp_models/native.py), so Slurm's variables are rewritten, not
  unset.
- Lightning reads Slurm's variables instead of RANK, unless torchrun started it, and requires SLURM_NTASKS_PER_NODE in
  addition to SLURM_NTASKS (lightning/fabric/plugins/environments/slurm.py). submitit, JAX and TensorFlow read them too.
- MPI's variables name a server that expects one process. If two ranks both called MPI_Init as that process, they would
  fail. A rank without these variables is alone in its MPI_COMM_WORLD.
Sources: srun(1), OUTPUT ENVIRONMENT VARIABLES, 22.05 to 25.11; mpirun(1) of Open MPI 4.1; Hydra, MPICH 4; PMIx 4.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from ..run_folder.run_folder import parse_count

TORCHRUN = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
# (rank of this process, number of processes, that launcher's variables); PMIx has no variable for the number
MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "PMIX_")),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", ("MV2_COMM_WORLD_",)),
    ("PMI_RANK", "PMI_SIZE", ("PMI_", "PMI2_", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
)


def make_engine_variables_consistent(variables: MutableMapping[str, str]) -> None:
    """Change one rank's variables in place, if it has torchrun's variables to compare them with."""
    if not variables.keys() >= TORCHRUN:
        return
    slurm = slurm_variables(variables)
    for name in contradicting_mpi_variables(variables):
        del variables[name]
    if slurm:
        variables.pop("SLURM_TRES_PER_TASK", None)  # repeats the cores, since Slurm 23.11
    variables.update(slurm)


def slurm_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return Slurm's variables for this rank, or {} outside a Slurm job."""
    if "SLURM_JOB_ID" not in variables:
        return {}
    rank, world_size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
    local_rank, procs = int(variables["LOCAL_RANK"]), int(variables["LOCAL_WORLD_SIZE"])
    nodes, first = world_size // procs, rank - local_rank
    layout = f"{procs}(x{nodes})" if nodes > 1 else str(procs)
    values: dict[str, object] = {
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": local_rank,
        "SLURM_NODEID": first // procs,
        "SLURM_NNODES": nodes,
        "SLURM_NTASKS": world_size,
        "SLURM_NPROCS": world_size,
        "SLURM_NTASKS_PER_NODE": procs,
        "SLURM_TASKS_PER_NODE": layout,
        "SLURM_GTIDS": ",".join(str(first + task) for task in range(procs)),
    }
    of_step = {"SLURM_STEP_NUM_TASKS": world_size, "SLURM_STEP_TASKS_PER_NODE": layout}
    values.update({name: value for name, value in of_step.items() if name in variables})  # not set in an salloc shell
    if cores := parse_count(variables.get("SLURM_CPUS_PER_TASK")):
        tasks = parse_count(variables.get("SLURM_NTASKS_PER_NODE")) or 1
        values["SLURM_CPUS_PER_TASK"] = max(cores * tasks // procs, 1)
    return {name: str(value) for name, value in values.items()}


def contradicting_mpi_variables(variables: Mapping[str, str]) -> list[str]:
    """Return the MPI variables that contradict RANK because MPI started the node's launcher instead of its ranks."""
    contradicting = []
    for rank, size, prefixes in MPI:
        counted = (variables.get(rank), variables.get(size))
        if counted not in ((None, None), (variables["RANK"], variables["WORLD_SIZE"])):
            contradicting += [name for name in variables if name.startswith(prefixes)]
    if "OMPI_COMM_WORLD_RANK" not in variables and "PMIX_RANK" in variables:  # srun --mpi=pmix
        counted = (variables["PMIX_RANK"], variables.get("SLURM_STEP_NUM_TASKS"))
        if counted != (variables["RANK"], variables["WORLD_SIZE"]):
            contradicting += [name for name in variables if name.startswith("PMIX_")]
    return list(dict.fromkeys(contradicting))
