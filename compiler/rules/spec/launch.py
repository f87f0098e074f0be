"""The launcher, its command and its ranks: JC2001, JC2010, JC2012, JC2016."""

import shlex
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import procs
from ...spec.job_spec import JobSpec


def check_processes_exceed_gpus(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2001: more than one rank per GPU.

    Source: NCCL 2.28, src/init.cc: `Duplicate GPU detected`, and then the ranks wait for one another.
    """
    if spec.gpus and procs(spec) > spec.gpus:
        title = f"{procs(spec)} processes on {spec.gpus} GPU{'s' * (spec.gpus > 1)} per node"
        because = "two ranks on one GPU hang in NCCL (Duplicate GPU detected)"
        hint = f"procs={spec.gpus}, or gpus={procs(spec)}, or gpus=0 for the CPU"
        yield Diagnostic("JC2001", title, because, hint, key="procs")


def check_restarts_with_srun(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2010: ranks that start more than once per attempt, with a launcher that does not support it."""
    if spec.launcher != "srun":
        return
    because = "an srun task ends when its rank ends, and only Slurm can start it again"
    if spec.then:
        hint = "launcher=torchrun"
        yield Diagnostic("JC2010", "launcher=srun does not support then", because, hint, key="then")
    if spec.lifecycle.max_restarts:
        hint = "lifecycle.max_restarts=0, because Slurm requeues the job; or launcher=torchrun"
        title = "launcher=srun does not support lifecycle.max_restarts"
        yield Diagnostic("JC2010", title, because, hint, key="lifecycle.max_restarts")


def check_command_without_program(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2012: a command without a program, because it has no words or begins with an option."""
    if spec.command is not None and not "".join(spec.command[:1]).strip():
        because = "no program is given"
        hint = "add a program after --, such as -- train.py; without -- jobc's own trainer runs"
        yield Diagnostic("JC2012", "command is empty", because, hint, key="command")
    elif spec.command and spec.command[0].startswith("-") and spec.command[0] != "-m":  # -m MODULE is for Python
        title, because = f"command begins with {spec.command[0]}", "the first argument after -- must be the program"
        hint = f"-- train.py {shlex.join(spec.command)}"
        yield Diagnostic("JC2012", title, because, hint, key="command")


def check_c10d_without_torchrun(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2016: torchrun's c10d rendezvous with another launcher."""
    if spec.rendezvous.backend == "c10d" and spec.launcher != "torchrun":
        because = "c10d is the rendezvous of torchrun's agents, and other launchers have no agents"
        title = f"rendezvous.backend=c10d needs torchrun, not launcher={spec.launcher}"
        hint = "rendezvous.backend=static; or launcher=torchrun"
        yield Diagnostic("JC2016", title, because, hint, key="rendezvous.backend")
