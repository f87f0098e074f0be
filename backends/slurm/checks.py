"""What Slurm would refuse, ignore or read as something else: diagnostics JC4301 to JC4305, JC4340, and JC4600."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...compiler.diagnostics import Diagnostic, Severity
from ...compiler.extra import refuse_extra
from ...compiler.plan import LaunchPlan
from .._shared import sbatch_options
from .options import SlurmOptions
from .spelling import more_option, tasks_per_node

# What job.sbatch or submit.sh say themselves, and the keys that they say it from. --gpus-per-task and its like would
# hide the other GPUs of the node from a rank.
OURS = {
    "--array": "a sweep (jobc -m) and backend.array_limit",
    "--chdir": "storage.root",
    "--constraint": "backend.constraint",
    "--cpus-per-gpu": "cpus",
    "--cpus-per-task": "cpus",
    "--dependency": "queue.after",
    "--error": "storage.root",
    "--exclude": "queue.exclude",
    "--exclusive": "queue.exclusive",
    "--account": "queue.account",
    "--gpu-bind": "gpus",
    "--gpus": "gpus",
    "--gpus-per-node": "gpus",
    "--gpus-per-task": "gpus",
    "--gres": "gpus and backend.gpus_as",
    "--job-name": "name",
    "--mem": "mem and backend.mem_policy",
    "--mem-per-cpu": "mem and backend.mem_policy",
    "--mem-per-gpu": "mem and backend.mem_policy",
    "--no-requeue": "lifecycle.max_requeues",
    "--nodefile": "queue.nodelist",
    "--nodelist": "queue.nodelist",
    "--nodes": "nodes",
    "--ntasks": "nodes, procs and launcher",
    "--ntasks-per-gpu": "nodes, procs and launcher",
    "--ntasks-per-node": "nodes, procs and launcher",
    "--ntasks-per-tres": "nodes, procs and launcher",
    "--open-mode": "lifecycle.max_requeues",
    "--output": "storage.root",
    "--partition": "queue.name",
    "--priority": "queue.priority",
    "--qos": "queue.qos",
    "--requeue": "lifecycle.max_requeues",
    "--reservation": "queue.reservation",
    "--signal": "lifecycle.grace",
    "--tasks-per-node": "nodes, procs and launcher",
    "--time": "time",
    "--tres-per-task": "gpus and cpus",
    "--wrap": "the words after --",
}
LONG = "[a-z][a-z-]+"  # the name of a long option
EARLY_S = 60  # --signal: "may be sent up to 60 seconds earlier than specified" (sbatch manual, 22.05 to 25.11)


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    yield from _version(options.version)
    yield from _one_word(plan, options)
    yield from refuse_extra(options.extra, {(option.removeprefix("--"),): owner for option, owner in OURS.items()})
    yield from _of_another_version(options)
    yield from _equal_shares(plan)
    yield from _time_to_save(plan)
    if options.mem_policy != "given" and plan.resources.mem_bytes is not None:
        because = f"backend.mem_policy={options.mem_policy} leaves the memory to the site"
        yield Diagnostic("JC4302", "mem has no effect", because, "mem=null, or backend.mem_policy=given", key="mem")


def _version(version: str) -> Iterator[Diagnostic]:
    """JC4301"""
    if not re.fullmatch(r"\d\d\.\d\d", version) or not "22.05" <= version <= "25.11":
        because = "jobc knows the options of Slurm 22.05 to 25.11"
        title, hint = f"no Slurm {version} is known", "backend.version=23.11, as `sbatch --version` says it"
        yield Diagnostic("JC4301", title, because, hint, key="backend.version")


def _of_another_version(options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4340: sbatch ends at an option that it does not know, and nothing of the job is queued."""
    site = options.version
    for name in options.extra:
        key, title = f"backend.extra.{name}", f"Slurm {site} has no option --{name}"
        since, gone = sbatch_options.SINCE.get(name, site), sbatch_options.GONE.get(name, "99.99")
        if not re.fullmatch(LONG, name):
            continue  # JC4303
        if not sbatch_options.is_known(name):
            yield _unknown(key, title, sbatch_options.meant(name))
        elif not since <= site < gone:
            because = f"sbatch has it since Slurm {since}" if site < since else f"sbatch had it before Slurm {gone}"
            hint = f"leave out {key}" + (f", or backend.version={since} if that is the site's" if site < since else "")
            yield Diagnostic("JC4340", title, because, hint, key=key)


def _unknown(key: str, title: str, meant: str) -> Diagnostic:
    """An error where a known option is close; else a warning, for a plugin of the site may bring it."""
    because = "no sbatch from 22.05 to 25.11 has it, and Pyxis brings none such"
    if not meant:
        hint = f"leave out {key}, unless a plugin of the site (SPANK) brings it"
        return Diagnostic("JC4340", title, because, hint, key=key, severity=Severity.WARNING)
    owner = OURS.get(f"--{meant}")
    hint = f"leave it out, and set {owner}" if owner else f"did you mean backend.extra.{meant}?"
    return Diagnostic("JC4340", title, because, hint, key=key)


def _equal_shares(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4304: --cpus-per-task is one number, so cores that the ranks cannot share evenly would be lost."""
    cpus, tasks = plan.resources.cpus, tasks_per_node(plan)
    if cpus is not None and cpus % tasks:
        title = f"{cpus} cores cannot be shared by {tasks} tasks a node"
        because = "launcher=srun starts a task for each rank, and Slurm gives each the same number of cores"
        hint = f"cpus={max(cpus - cpus % tasks, tasks)}, or launcher=torchrun"
        yield Diagnostic("JC4304", title, because, hint, key="cpus")


def _time_to_save(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4305: the notice of the time limit would come at the start already."""
    limit, notice = plan.lifecycle.time_limit_s, plan.lifecycle.kill_after_s + EARLY_S
    if 0 < limit <= notice:
        title = f"a time limit of {limit} s is too short to save in"
        because = (
            f"Slurm's notice comes up to {notice} s before the limit: grace, 10 s to end, and {EARLY_S} s of Slurm's"
        )
        hint = f"time={notice // 60 + 1}m" + (", or a shorter lifecycle.grace" if plan.lifecycle.grace_s > 5 else "")
        yield Diagnostic("JC4305", title, because, hint, key="time")


def _one_word(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4303 for text that an #SBATCH line would not hand on as it is: the line is read by sbatch, not by a shell."""
    queue = plan.queue
    texts = {
        "gpu_type": plan.resources.gpu_type,
        "queue.name": queue.name,
        "queue.account": queue.account,
        "queue.qos": queue.qos,
        "queue.priority": queue.priority,
        "queue.reservation": queue.reservation,
        "backend.constraint": options.constraint,
        **{f"queue.after.{i}": job for i, job in enumerate(queue.after)},
        **{f"backend.extra.{name}": more_option(name, value) or None for name, value in options.extra.items()},
    }
    for key, text in texts.items():
        if text is not None and not re.fullmatch(r"[\w.,:+=/@%&|*()\[\]-]+", text, re.ASCII):
            title = f"{key}: {text!r} does not fit in an #SBATCH line"
            because = "sbatch would split or cut it: letters, digits and .,:+=/@%&|*()[]-_ only"
            yield Diagnostic("JC4303", title, because, f"another {key}", key=key)
        elif text is not None and key.startswith("backend.extra.") and not re.match(rf"--{LONG}(=|$)", text):
            because = "an option has its long name here, by which it can be told from those that jobc says itself"
            yield Diagnostic("JC4303", f"{key}: {text!r} is no long option", because, f"leave out {key}", key=key)
