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
    out += ["## Of other launchers\n", OTHER_LAUNCHERS, table(("variable", "set by", "meaning", "read as"), *alike)]
    out.append("## Known only where the job runs\n")
    out.append(
        "Each backend says where it learns these and how they are spelt there; what comes after reads the variable.\n"
    )
    out.append(table(("variable", "meaning"), *spelt))
    return "\n".join(out)


SETTERS = """\
What a rank may read, your own program as well. *launcher*: torchrun or its like; *backend*: what started the job;
*node.sh*: the script of the artifact; *user*: you, or nobody. An *index* is 0 or more, a *count* 1 or more, a *flag*
True or False. Not all are set: those of torchrun only below torchrun, those of *user* on request.
"""


OTHER_LAUNCHERS = """\
jobc, torchrun and accelerate set the variables above. Who starts the trainer, or a program with
[its helper](your-script.md), by srun or mpirun alone needs not: these are read where `RANK` and `WORLD_SIZE` are not
set. Open MPI, MPICH and MVAPICH say nothing of where ranks meet: `mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500`.
With none of them there is one process.

Two launchers that both count ranks must say the same, else the run ends with 65 and both are named: a `RANK` left from
an earlier shell would train several times the same shard. One that started the other is no contradiction: `srun
torchrun`, where srun counts agents, or mpirun in a batch job. `JOBC_LAUNCHER=srun` (`torchrun`, `mpirun`, `PMI`,
`mvapich`, `skypilot`) takes the word of that one alone; another word is 65, and so is one that has set no rank.
"""
