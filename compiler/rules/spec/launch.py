"""The launcher, its options, its command and its ranks: JC2001, JC2010, JC2012, JC2016, JC2025."""

import shlex
from collections.abc import Iterator, Mapping

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...emit.extra_entries import check_extra_entries
from ...plan.derive import TORCHRUN_LAUNCHERS, procs_per_node, torchrun_option_name
from ...spec.job_spec import JobSpec


def check_processes_exceed_gpus(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2001: more than one rank per GPU.

    Source: NCCL 2.28, src/init.cc: `Duplicate GPU detected`, and then the ranks wait for one another.
    """
    if spec.gpus and procs_per_node(spec) > spec.gpus:
        title = f"{procs_per_node(spec)} processes on {spec.gpus} GPU{'s' * (spec.gpus > 1)} per node"
        because = "two ranks on one GPU hang in NCCL (Duplicate GPU detected)"
        hint = f"procs={spec.gpus}, or gpus={procs_per_node(spec)}, or gpus=0 for the CPU"
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
    """JC2016: torchrun's c10d rendezvous with a launcher that has no agents."""
    if spec.rendezvous.backend == "c10d" and spec.launcher not in ("torchrun", "accelerate"):
        because = "c10d is the rendezvous of torchrun's agents, which only torchrun and accelerate start"
        title = f"rendezvous.backend=c10d needs torchrun or accelerate, not launcher={spec.launcher}"
        hint = "rendezvous.backend=static; or launcher=torchrun"
        yield Diagnostic("JC2016", title, because, hint, key="rendezvous.backend")


# PyTorch 2.13, torch/distributed/run.py, get_args_parser()
TORCHRUN_OPTIONS = frozenset({
    "duplicate-stderr-filters", "duplicate-stdout-filters", "event-log-handler", "local-addr", "local-ranks-filter",
    "logs-specs", "monitor-interval", "numa-binding", "redirects", "role", "signals-to-handle", "start-method", "tee",
    "virtual-local-rank",
})  # fmt: skip
TORCHRUN_FLAGS = frozenset({"virtual-local-rank"})
SET_BY_JOBC: Mapping[str, str] = {
    "help": "the words after --",
    "log-dir": "storage.root",
    "master-addr": "hosts",
    "master-port": "rendezvous.port",
    "max-restarts": "lifecycle.max_restarts",
    "module": "the words after --",
    "nnodes": "nodes",
    "no-python": "the words after --",
    "node-rank": "",
    "nproc-per-node": "procs",
    "rdzv-backend": "rendezvous.backend",
    "rdzv-conf": "rendezvous.timeout",
    "rdzv-endpoint": "hosts and rendezvous.port",
    "rdzv-id": "",
    "run-path": "the words after --",
    "shutdown-timeout": "lifecycle.grace",
    "standalone": "nodes",
}


def check_torchrun_options(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2025: options in torchrun.extra that torchrun does not have. JC4600: options that jobc sets."""
    extra = spec.torchrun.extra
    if extra and spec.launcher not in TORCHRUN_LAUNCHERS:
        because = f"launcher={spec.launcher} does not start torchrun"
        yield Diagnostic("JC2025", "torchrun.extra has no effect", because, "launcher=torchrun", key="torchrun.extra")
        return
    names = {name: torchrun_option_name(name) for name in extra}
    protected: dict[tuple[str, ...], str] = {
        (name,): SET_BY_JOBC[option] for name, option in names.items() if option in SET_BY_JOBC
    }
    yield from check_extra_entries(extra, protected, ("torchrun", "extra"))
    for name, option in names.items():
        key, value = f"torchrun.extra.{name}", extra[name]
        if option in SET_BY_JOBC:
            continue
        if option not in TORCHRUN_OPTIONS:
            close = nearest(option, TORCHRUN_OPTIONS)
            hint = f"torchrun.extra.{close[0]}={value}" if close else f"remove {key}"
            because = f"torchrun of PyTorch 2.13 has {', '.join(sorted(TORCHRUN_OPTIONS))}"
            yield Diagnostic("JC2025", f"torchrun has no option --{option}", because, hint, key=key)
        elif value is not None and type(value) not in ((bool,) if option in TORCHRUN_FLAGS else (str, int, float)):
            title, hint = f"torchrun cannot read the value of {key}", f"remove {key}"
            form = "a flag: true or false" if option in TORCHRUN_FLAGS else "an option with one value"
            yield Diagnostic("JC2025", title, f"--{option} is {form}", hint, key=key)
