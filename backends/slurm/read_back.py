"""Reads back how submit.sh calls sbatch, and job.sbatch: its #SBATCH lines, the srun that it calls, and what it does at
a signal, at another start and at its end.

Source  sbatch and srun manual of Slurm 22.05 to 25.11: units of --mem and --time, SLURM_ variables of a task, input
        environment variables of srun
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...compiler.amounts import slurm_bytes, slurm_seconds
from ...compiler.equivalence.ends import attempt_reaches, ends_alike, hands_on
from ...compiler.equivalence.reading import ARTIFACT, RUN, Call, Onward, Reading, Stage, Start, Unreadable
from ...compiler.equivalence.standing import passes_on
from ...compiler.equivalence.steps import OUTSIDE
from ...compiler.equivalence.variables import OF_SHELL
from ...compiler.values import expand_hostlist
from .own_options import EMITTED, OURS

TEXTS = {
    "job-name": "name",
    "partition": "queue.name",
    "account": "queue.account",
    "qos": "queue.qos",
    "priority": "queue.priority",
    "reservation": "queue.reservation",
}
JOB = ("bash", f"{ARTIFACT}/job.sbatch", RUN, "0")
MARGIN_S = 10  # plan.lifecycle.kill_after_s: what the supervisor needs after the ranks
OPTIONS = {  # of sbatch -> what it must be, and what would happen else
    "open-mode": ("append", "a job that starts again would write over its log"),
}
SUBMITTED = {"parsable": "", "chdir": RUN, "output": f"{RUN}/logs/slurm-%j.log"}  # options of sbatch in submit.sh
STEP = {  # option of srun -> what it must be, and what would happen else
    "mpi": ("none", "a plugin of Slurm would tell the ranks another place in the job"),
    "kill-on-bad-exit": ("0", "it would end all tasks with the first that fails"),
    "wait": ("0", "it would end all tasks some seconds after the first"),
    "export": ("ALL", "the tasks would lack the variables of the job"),
}
OF_STEP = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", *STEP)
NEVER = OURS.keys() - EMITTED.keys()  # whatever backend.extra says
OF_ALLOCATION = (  # what salloc may have been told; srun would take it as options of its own
    "SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE", "SLURM_MEM_BIND", "SLURM_GPU_BIND", "SLURM_TRES_BIND",
    "SLURM_DISTRIBUTION", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_CPUS_PER_GPU", "SLURM_TRES_PER_TASK",
    "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",
)  # fmt: skip
WAIVED = {
    "lifecycle.keep_s": "Slurm keeps nothing of a job that has ended but its line in accounting",
    "resources.shm_bytes": "a process on a node has the node's own /dev/shm; node.sh checks that it is large enough",
}


def read_back(stage: Stage) -> Reading:
    text = stage.files["job.sbatch"]
    options = _options(text)
    facts = _facts(options, text)
    runs = re.search(r"^this_job (.*)$", stage.files["submit.sh"], re.MULTILINE)
    facts["run.folder"], facts["run.root"] = shlex.split(runs[1]) if runs else ("", "")
    _need_submission(stage)
    batch = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": options.get("nodes", "1")}
    calls = stage.run(JOB, {**batch, **dict.fromkeys(OF_ALLOCATION, "1")})
    nodes, tasks = int(options.get("nodes", "1")), int(options.get("ntasks-per-node", "1"))
    srun = _only_step(calls)
    step, words = _step(srun)
    exported = {name: value for name, value in srun.env.items() if name not in OF_SHELL}
    _need_tasks("srun", step, nodes, tasks)
    _need_options(options, step)
    _need_probe(calls, nodes)
    _need_end(calls, nodes)
    _need_handlers(stage, calls, options.get("signal", ""))
    _need_limit(stage, batch, _limit(text))
    _need_again(stage, batch, _limit(text))
    _need_attempt(stage, batch, _limit(text))
    starts = tuple(Start(words, {**exported, **batch, **_task(n, nodes, tasks)}) for n in range(nodes * tasks))
    of_task = (
        *ends_alike(stage, starts[0], "task.sh"),
        *hands_on(stage, starts[0], "task.sh", OUTSIDE),  # --here: the shell that is in the allocation
        *attempt_reaches(stage, starts[0], "task.sh"),
    )
    of_job = passes_on(calls, Onward("job.sbatch", is_exec=False), "srun")
    wrong = (*_waits(options, text), *of_job, *of_task)
    wrong = (*wrong, *(f"job.sbatch says --{name}, which no job does" for name in options if name in NEVER))
    extra = {name: "" for name in options if name not in EMITTED}
    return Reading(starts, "node0", {**facts, **_container(step)}, WAIVED, wrong, extra, Onward("task.sh"))


def _need_submission(stage: Stage) -> None:
    """submit.sh, in a shell that is in an allocation, hands over the job of its own run and nothing of that shell."""
    calls = stage.run(("bash", f"{ARTIFACT}/submit.sh"), dict.fromkeys((*OF_ALLOCATION, "SLURM_JOB_ID"), "1"))
    call = next((call for call in calls if call.name == "sbatch"), None)
    if call is None:
        raise Unreadable("submit.sh does not come to sbatch")
    options, job = _step(call)
    if job != (f"{RUN}/artifact/0/job.sbatch", RUN, "0"):
        raise Unreadable(f"submit.sh hands over {' '.join(job)}, not job.sbatch of the run with its folder and attempt")
    if options != SUBMITTED:
        said = " ".join(f"--{name}={value}" if value else f"--{name}" for name, value in options.items())
        raise Unreadable(f"submit.sh calls sbatch with {said}: the id, the folder or the log are not those of the run")
    if left := sorted(name for name in call.env if name.startswith("SLURM_")):
        raise Unreadable(f"submit.sh calls sbatch with {', '.join(left)} of the allocation that it is called in")


def _only_step(calls: Sequence[Call]) -> Call:
    steps = [call for call in calls if call.name == "srun"]
    if len(steps) != 1:
        raise Unreadable(f"job.sbatch starts {len(steps)} job steps, and a job is one")
    if left := [name for name in OF_ALLOCATION if name in steps[0].env]:
        raise Unreadable(f"srun would follow {', '.join(left)} of the allocation: job.sbatch does not unset it")
    return steps[0]


def _need_options(options: Mapping[str, str], step: Mapping[str, str]) -> None:
    """Those that no job has otherwise. options: of the #SBATCH lines; step: of srun"""
    for command, said, fixed in (("sbatch", options, OPTIONS), ("srun", step, STEP)):
        for name, (wanted, otherwise) in fixed.items():
            if said.get(name) != wanted:
                raise Unreadable(f"{command} is called without --{name}={wanted}: {otherwise}")
    if more := [name for name in step if name not in OF_STEP and "container-image" not in step]:
        raise Unreadable(f"srun is called with --{more[0]}, which would change what its tasks get: no job says it")
    cores = options.get("cpus-per-task"), step.get("cpus-per-task")
    if cores[0] != cores[1]:
        raise Unreadable(f"--cpus-per-task is {cores[0]} for the job and {cores[1]} for its step")


def _need_probe(calls: Sequence[Call], nodes: int) -> None:
    """The srun, below timeout, that asks each node whether it sees the run folder."""
    for call in calls:
        if call.name == "timeout" and call.words[2:3] == ("srun",):
            _need_tasks("srun below timeout", _step(Call(call.words[2:], call.folder, call.env))[0], nodes, 1)


def _need_tasks(what: str, step: Mapping[str, str], nodes: int, tasks: int) -> None:
    """It says them itself: in somebody's allocation (--here) those of the job are not what Slurm would take."""
    for name, value in {"nodes": nodes, "ntasks": nodes * tasks, "ntasks-per-node": tasks}.items():
        if step.get(name) != str(value):
            raise Unreadable(f"{what} starts tasks with --{name}={step.get(name)}, and the job has {value}")


def _need_end(calls: Sequence[Call], nodes: int) -> None:
    """When srun has ended well, so has the job, and what only it needs is gone."""
    words = [call.words for call in calls]
    if len({call for call in words if call[0] == "wait"}) < 2:  # for srun, and for end_left_behind
        raise Unreadable("job.sbatch ends before what it has started beside srun: Slurm would have to kill it")
    if ("worst_exit", RUN, "0", "0", str(nodes)) not in words or ("forget_secrets", RUN) not in words:
        raise Unreadable(f"job.sbatch does not end as its srun, with the worst exit code of {nodes} nodes")


def _need_handlers(stage: Stage, calls: Sequence[Call], asked: str) -> None:
    """Signals that would end the script are trapped; that of --signal tells the ranks, and has the job start again.

    asked: the value of --signal, such as `B:USR2@70`
    """
    if not asked:
        raise Unreadable(
            "job.sbatch asks for no --signal, and nothing would tell the ranks to save before the time limit"
        )
    notice = asked.removeprefix("B:").partition("@")[0]
    handlers = {name: call.words[1] for call in calls if call.name == "trap" for name in call.words[2:]}
    for name, noted in ((notice, "time"), ("TERM", "term")):
        if name not in handlers:
            raise Unreadable(f"job.sbatch does not trap {name}, which would end it, and the job")
        done = stage.run(("bash", "-c", f'asked=""\n{handlers[name]}\nasked "$asked"'), {"run": RUN})
        words = [call.words for call in done]
        if ("asked", noted) not in words or (name == notice and ("signal_steps", "TERM", RUN) not in words):
            raise Unreadable(f"job.sbatch at signal {name}: `{handlers[name]}` does not tell the ranks to save, or why")


def _need_limit(stage: Stage, batch: Mapping[str, str], limit: int) -> None:
    """Slurm asks nobody before it starts a job again: the script counts."""
    for count in (limit, limit + 1):
        for here in ((), ("here",)):  # in somebody's allocation, whose restarts are not those of the run
            calls = stage.run((*JOB, *here), {**batch, "SLURM_RESTART_COUNT": str(count)})
            if any(call.name == "srun" for call in calls) != (count <= limit or bool(here)):
                raise Unreadable(f"job.sbatch takes restart {count} otherwise than max_requeues={limit} says")


def _need_again(stage: Stage, batch: Mapping[str, str], limit: int) -> None:
    """A job that was preempted asks Slurm to start it again; one that is broken ends, as its srun."""
    preempted = {**batch, "JOBC_STAGE_SAYS": "JobState=RUNNING Restarts=0 PreemptTime=2026-01-01T00:00:00"}
    for code, again in ((75, limit > 0), (65, False), (0, False)):
        ended = stage.end(JOB, preempted, code)
        if ended.called("scontrol", "requeue", "7") != again:
            raise Unreadable(f"job.sbatch {'ends' if again else 'starts again'} after exit {code} of a preempted job")
        if ended.status != code:
            raise Unreadable(f"job.sbatch ends with {ended.status} when srun has ended with {code}")
        if not any(call.words[-1] == f"{RUN}/state/job_0" for call in ended.calls[: _at(ended.calls, "srun")]):
            raise Unreadable("job.sbatch does not record its attempt before it starts")


def _at(calls: Sequence[Call], name: str) -> int:
    return next(number for number, call in enumerate(calls) if call.name == name)


def _need_attempt(stage: Stage, batch: Mapping[str, str], limit: int) -> None:
    """Each start is an attempt of its own; a run that was stopped before it starts does not start."""
    again = stage.run((*JOB[:-1], "2"), {**batch, "SLURM_RESTART_COUNT": "1"}) if limit else ()
    if any(call.words[-2] != "3" for call in again if call.name == "srun"):
        raise Unreadable("job.sbatch: the first restart of attempt 2 is not attempt 3")
    stopped = stage.end(JOB, batch, 0, {"control/STOP": ""})
    if stopped.called("srun") or stopped.status:
        raise Unreadable("job.sbatch starts a run that stop.sh has stopped")


def _waits(options: Mapping[str, str], text: str) -> Iterator[str]:
    """The other nodes have as long after a failure as all have before the time limit."""
    before = options.get("signal", "").partition("@")[2]
    after = re.search(r'^end_left_behind "\$srun" (\d+) &$', text, re.MULTILINE)
    waits = after[1] if after else "no"
    if waits != before:
        yield f"job.sbatch ends srun {waits} s after a failure, and --signal comes {before} s before the time limit"


def _limit(text: str) -> int:
    found = re.search(r"^max_requeues=(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _task(number: int, nodes: int, tasks: int) -> dict[str, str]:
    """What Slurm tells task `number` of a step with the tasks of each node one after the other."""
    return {
        "SLURM_PROCID": str(number),
        "SLURM_NODEID": str(number // tasks),
        "SLURM_LOCALID": str(number % tasks),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": "node0" if nodes == 1 else f"node[0-{nodes - 1}]",
        "SLURM_STEP_TASKS_PER_NODE": str(tasks) if nodes == 1 else f"{tasks}(x{nodes})",
    }


def _options(text: str) -> dict[str, str]:
    """Of the #SBATCH lines before the first command, as sbatch reads them: the last one of a name counts."""
    head = re.split(r"^(?!#|\s*$)", text, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^#SBATCH\s+--([\w-]+)(?:=(.*))?$", head, re.MULTILINE)
    return dict(found)


def _step(call: Call) -> tuple[dict[str, str], tuple[str, ...]]:
    """The options of an srun, and its program."""
    at = next(i for i, word in enumerate(call.words) if i and not word.startswith("--"))
    pairs = (word[2:].partition("=") for word in call.words[1:at])
    return {name: value for name, _, value in pairs}, call.words[at:]


def _facts(options: dict[str, str], text: str) -> dict[str, Any]:
    facts: dict[str, Any] = {key: options[name] for name, key in TEXTS.items() if name in options}
    facts.setdefault("name", "job.sbatch")
    facts["backend.constraint"] = options.get("constraint")
    facts["topology.nodes"] = int(options.get("nodes", "1"))
    gpus = options.get("gpus-per-node", options.get("gres", "").removeprefix("gpu:"))
    kind, _, count = gpus.rpartition(":")
    facts["topology.gpus"] = int(count or 0)
    if kind:
        facts["resources.gpu_type"] = kind
    if "cpus-per-task" in options:
        facts["resources.cpus"] = int(options["cpus-per-task"]) * int(options.get("ntasks-per-node", "1"))
    if options.get("mem", "0") != "0":  # 0: all that a node has
        facts["resources.mem_bytes"] = slurm_bytes(options["mem"])
    facts["lifecycle.time_limit_s"] = slurm_seconds(options["time"]) if "time" in options else 0
    signal = re.fullmatch(r"B:\w+@(\d+)", options.get("signal", ""))
    facts["lifecycle.grace_s"] = int(signal[1]) - MARGIN_S if signal else f"--signal={options.get('signal')}"
    facts["lifecycle.max_requeues"] = _limit(text) if "requeue" in options else 0
    if "nodelist" in options:
        facts["hosts"] = expand_hostlist(options["nodelist"])
    if "exclude" in options:
        facts["queue.exclude"] = expand_hostlist(options["exclude"])
    facts["queue.exclusive"] = "exclusive" in options
    facts["queue.after"] = options["dependency"].split(":")[1:] if "dependency" in options else []
    return facts


def _container(step: dict[str, str]) -> dict[str, Any]:
    """Pyxis: the container is an option of the step."""
    if "container-image" not in step:
        return {}
    parts = [each.split(":") for each in step.get("container-mounts", "").split(",") if each]
    facts: dict[str, Any] = {"container.kind": "pyxis", "container.image": step["container-image"]}
    known = ("container-image", "container-mounts", "no-container-mount-home", "container-workdir", *OF_STEP)
    facts["container.options"] = [f"--{n}={v}" if v else f"--{n}" for n, v in step.items() if n not in known]
    facts["pyxis.mounts"] = [(p[0], p[1], (p[2:] or ["rw"])[0]) for p in parts]
    return facts
