"""environment.md: what a rank may read, out of the trainer's table."""

from __future__ import annotations

from jobc.compiler.plan.runtime_vars import RuntimeVar
from jobc.trainer.dist import env

from ._common import GENERATED, table


def page() -> str:
    rows = [(f"`{v.name}`", v.setter, v.kind, v.meaning) for v in env.TABLE if not v.like]
    alike = [(f"`{v.name}`", v.setter, v.meaning, f"`{v.like}`") for v in env.TABLE if v.like]
    spelt = [(f"`{variable.variable}`", variable.value) for variable in RuntimeVar]
    out = ["# Environment of a rank\n", GENERATED, SETTERS]
    out.append(table(("variable", "set by", "kind", "meaning"), *rows))
    out += ["## Other launchers\n", OTHER_LAUNCHERS, table(("variable", "set by", "meaning", "read as"), *alike)]
    out.append("## Only known where the job runs\n")
    out.append(
        "Each backend defines where these become known and how they are written there; later steps read the variable.\n"
        "In the command and in `env`, `${jobc:run_id}` stands for `JOBC_RUN_ID`, and so on for all but the port:\n"
        "`jobc 'env.TRIAL=${jobc:run_id}' -- train.py '--out=${jobc:run_dir}/out'`. Quote it for your shell.\n"
    )
    out.append(table(("variable", "meaning"), *spelt))
    return "\n".join(out)


SETTERS = """\
Variables that every rank can read, including your own program. They are set by the *launcher* (torchrun or another),
the *backend* that started the job, *jobctl* of the artifact, or the *user*. An *index* is 0 or more, a *count* 1 or
more, a *flag* True or False. Those of torchrun are set only under torchrun, those of the user only if you set them.
"""


OTHER_LAUNCHERS = """\
jobc, torchrun and accelerate set the variables above. If you start the trainer, or a program with
[its helper](your-script.md), with srun or mpirun alone, these are read if `RANK` and `WORLD_SIZE` are not
set. Open MPI, MPICH and MVAPICH do not set a rendezvous endpoint: `mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500`.
Without any of them there is one process.

Two launchers that both number ranks must agree, or the run exits with 65 and names both: a `RANK` left over from
an earlier shell would train the same shard several times. Nested launchers are allowed: `srun
torchrun`, where srun counts agents, or mpirun in a batch job. `JOBC_LAUNCHER=srun` (`torchrun`, `mpirun`, `PMI`,
`mvapich`, `skypilot`) uses only that launcher; if the name is unknown or that launcher has not
set a rank, the rank exits with 65.
"""
