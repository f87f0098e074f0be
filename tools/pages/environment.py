"""environment.md: the variables that a rank can read, from the trainer's table."""

from __future__ import annotations

from jobc.compiler.plan.runtime_vars import RuntimeVar
from jobc.trainer.dist import env

from ._common import GENERATED, table


def page() -> str:
    rows = [(f"`{v.name}`", v.setter, v.kind, v.meaning) for v in env.TABLE if not v.like]
    alike = [(f"`{v.name}`", v.setter, v.meaning, f"`{v.like}`") for v in env.TABLE if v.like]
    spelt = [(f"`{variable.env_name}`", variable.value) for variable in RuntimeVar]
    out = ["# Environment of a rank\n", GENERATED, SETTERS]
    out.append(table(("variable", "set by", "kind", "meaning"), *rows))
    out += ["## Other launchers\n", OTHER_LAUNCHERS, table(("variable", "set by", "meaning", "read as"), *alike)]
    out.append("## Known only at run time\n")
    out.append(
        "Each backend defines at which step these values become known and how they are spelled; later steps read the "
        "variables.\n"
        "In the command and in `env`, `${jobc:run_id}` inserts `JOBC_RUN_ID`; the other values, except the port, work "
        "in the same way:\n"
        "`jobc 'env.TRIAL=${jobc:run_id}' -- train.py '--out=${jobc:run_dir}/out'`. Quote such words for your shell.\n"
    )
    out.append(table(("variable", "meaning"), *spelt))
    return "\n".join(out)


SETTERS = """\
Every rank, including your own program, can read these variables. They are set by the *launcher* (torchrun or another),
the *backend* that started the job, the artifact's *jobctl*, or the *user*. An *index* is 0 or more, a *count* is 1 or
more, and a *flag* is True or False. torchrun's variables are set only under torchrun, and the user's only if you set
them.
"""


OTHER_LAUNCHERS = """\
jobc, torchrun and accelerate set the variables above. If srun or mpirun alone starts the trainer, or
a program that uses [its helper](your-script.md), the variables below are read, unless `RANK` and `WORLD_SIZE` are set.
Open MPI, MPICH and MVAPICH do not set a rendezvous endpoint, so set it yourself:
`mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500`. If none of these variables is set, there is one process.

If two launchers both number ranks, they must agree. Otherwise, the run prints both values and exits with 65. This
protects you from a `RANK` left over from an earlier shell, with which several ranks would train on the same shard.
Nested launchers are allowed: `srun torchrun`, where srun counts agents, or mpirun in a batch job.
With `JOBC_LAUNCHER=srun` (or `torchrun`, `mpirun`, `PMI`, `mvapich`, `skypilot`), only that launcher's variables are
read. If the name is unknown or that launcher has not set a rank, the rank exits with 65.
"""
