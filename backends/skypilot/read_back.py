"""Reads back task.sky.yaml: what is asked of SkyPilot, and what `run` starts on each node.

Source  SkyPilot 0.14.1, docs.skypilot.co/en/latest/reference/yaml-spec.html; running-jobs/environment-variables
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...compiler.equivalence.ends import CODES, hands_on
from ...compiler.equivalence.lines import mistakes_in_line
from ...compiler.equivalence.reading import ARTIFACT, Onward, Reading, Stage, Start, Unreadable
from ...compiler.equivalence.yaml_file import Section, read_documents
from .schema import problems

GIB = 1024**3
WAIVED = {
    "mounts.host": "a folder of the nodes: there already, or in config.kubernetes, which only Kubernetes reads",
    "lifecycle.keep_s": "backend.autostop says when machines go, in whole minutes",
    "resources.shm_bytes": "backend.config has it where the infrastructure can say it; node.sh checks it everywhere",
    "queue.account": "below config.slurm, which only Slurm reads",
    "queue.qos": "below config.slurm, which only Slurm reads",
    "queue.reservation": "below config.slurm, which only Slurm reads",
    "queue.name": "the last part of resources.infra, which SkyPilot reads",
    "queue.nodelist": "below config.slurm, which only Slurm reads",
    "queue.exclude": "below config.slurm, which only Slurm reads",
    "queue.exclusive": "below config.slurm, which only Slurm reads",
    "resources.hosts": "below config.slurm, which only Slurm reads",
    "code.root": "submit.sh sends the code, and a node finds it where it was sent",
}
NODE_SH = Onward("task.sh", is_exec=False, stderr="stdout")  # of which SkyPilot keeps one log


def read_back(stage: Stage) -> Reading:
    task = read_documents(stage.files, "task.sky.yaml")[0]
    for at, why in problems(task):
        raise Unreadable(f"task.sky.yaml: {'.'.join(map(str, at))}: {why}")
    resources = task.section("resources")
    facts = _facts(task, resources)
    recovery = resources.get("job_recovery")
    codes = recovery.get("recover_on_exit_codes") if isinstance(recovery, Mapping) else None
    if codes == []:
        facts["lifecycle.max_requeues"] = 0
    elif codes not in ([69, 75], None):
        raise Unreadable(f"job_recovery starts again after {codes}, not after 69 and 75")
    unmanaged = "SkyPilot starts nothing again but a managed job (backend.managed)"
    waived = WAIVED if recovery else {**WAIVED, "lifecycle.max_requeues": unmanaged}
    starts = tuple(_starts(task, facts["topology.nodes"], facts["topology.gpus"]))
    lines = (what for line in task["run"].splitlines() for what in mistakes_in_line(line))
    unset = [name for name, value in (task.get("envs") or {}).items() if value is None]
    wrong = (*(f"task.sky.yaml: run: {what}" for what in lines), *_ends(stage, starts))
    wrong += tuple(f"task.sky.yaml: {name} has no value, and sky launch asks for one" for name in unset)
    if "join_" in stage.files["task.sh"]:  # else each node has a run folder of its own
        wrong += tuple(hands_on(stage, starts[0], "task.sh"))
    return Reading(starts, "10.0.0.1", facts, waived, wrong, onward=NODE_SH)


def _facts(task: Section, resources: Section) -> dict[str, Any]:
    """What SkyPilot reads, as keys of the plan."""
    kinds, gpus = _accelerators(resources)
    facts: dict[str, Any] = {"topology.nodes": task.get("num_nodes", 1), "topology.gpus": gpus}
    if resources.get("accelerators"):
        facts["resources.gpu_type"] = kinds[0]
    if "cpus" in resources:
        facts["resources.cpus"] = int(str(resources["cpus"]).rstrip("+"))
    if "memory" in resources:
        facts["resources.mem_bytes"] = int(str(resources["memory"]).rstrip("+")) * GIB
    image = str(resources.get("image_id", ""))
    if image:
        facts |= {"container.kind": "pod", "container.image": image.removeprefix("docker:")}
    if "labels" in resources:
        facts["labels"] = {name: str(value) for name, value in resources["labels"].items()}
    if "priority" in resources or "priority_class" in resources:
        facts["queue.priority"] = str(resources.get("priority", resources.get("priority_class")))
    facts["mounts"] = _mounts(task)
    facts["backend.use_spot"] = bool(resources.get("use_spot"))
    if isinstance(resources.get("autostop"), Mapping):
        facts["backend.down"] = resources["autostop"].get("down", False)
    facts |= {f"backend.{name}": resources.get(name) for name in ("disk_tier", "instance_type")}
    facts["backend.ports"] = list(resources.get("ports") or ())
    facts["backend.setup"] = _setup_lines(str(task.get("setup") or ""))
    return {**facts, **_code(task.get("workdir"))}


def _setup_lines(text: str) -> list[str]:
    """Of a node that has not been set up: between the question whether it has, and the mark that it is."""
    found = re.search(r"^if \[\[ .*? \]\]; then\n(.*?)^  mkdir -p -- \"\$\{mark", text, re.DOTALL | re.MULTILINE)
    return [line.removeprefix("  ") for line in found[1].splitlines()] if found else [text] * bool(text)


def _code(workdir: Any) -> dict[str, Any]:
    if isinstance(workdir, Mapping):
        return {"code.kind": "git", "code.repository": workdir.get("url"), "code.commit": workdir.get("ref")}
    if workdir != ".":
        raise Unreadable(f"task.sky.yaml: workdir is {workdir}, not the folder of the artifact")
    return {}


def _accelerators(resources: Mapping[str, Any]) -> tuple[list[str], int]:
    """Kinds of GPU, of which any will do, the task's own first, and how many each node has of it."""
    others = [each for name in ("any_of", "ordered") for each in resources.get(name) or ()]
    said = [each["accelerators"] for each in (resources, *others) if each.get("accelerators")]
    found = [str(kind).partition(":") for kind in said]
    counts = {int(count or 1) for _, _, count in found}
    if len(counts) > 1:
        raise Unreadable(
            f"task.sky.yaml: machines of {' or '.join(map(str, sorted(counts)))} GPUs would do, not of one number"
        )
    return [kind for kind, _, _ in found], counts.pop() if counts else 0


def _starts(task: Mapping[str, Any], nodes: int, gpus: int) -> list[Start]:
    """As submit.sh calls it: JOBC_ARTIFACT is where the artifact was sent."""
    envs = {name: str(value) for name, value in task.get("envs", {}).items()}
    secrets = {name: f"secret-{name.lower()}" for name in task.get("secrets") or {}}
    addresses = "\n".join(f"10.0.0.{n + 1}" for n in range(nodes))
    sky = {"SKYPILOT_NODE_IPS": addresses, "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus), "SKYPILOT_TASK_ID": "sky-task"}
    given = {**envs, **secrets, **sky, "JOBC_ARTIFACT": ARTIFACT}
    return [Start(("bash", "-c", task["run"]), {**given, "SKYPILOT_NODE_RANK": str(n)}) for n in range(nodes)]


def _ends(stage: Stage, starts: Sequence[Start]) -> Iterator[str]:
    """Node 0 says how the run has ended, another node that all is well once it has; a signal goes to the ranks."""
    all_said = {f"exit/0/node_{number:02d}": "" for number, _ in enumerate(starts)}
    for number in sorted({0, len(starts) - 1}):
        for code in CODES:
            ended = stage.end(starts[number].words, starts[number].env, code, all_said)
            is_seen = ended.called("join_run") or ended.called("join_bucket")  # by the others, on storage that all see
            if not is_seen and not ended.called("prepare_attempt"):
                yield f"task.sh: node {number} prepares no attempt"
            wanted = code if number == 0 or not is_seen else 0
            if ended.status != wanted:
                yield f"task.sh: node {number} ends with {ended.status}, not {wanted}, when its ranks ended with {code}"
            if f"node {number} ends with {code}:" not in ended.said:
                yield f"task.sh: node {number} does not say for status.sh that it ends with {code}"
    handlers = [call.words[1] for call in ended.calls if call.name == "trap" and "TERM" in call.words[2:]]
    if len(handlers) != 2:
        yield f"task.sh traps TERM {len(handlers)} times, and must before its ranks are there and after"
        return
    if stage.end(("bash", "-c", handlers[0]), {}, 0).status != 143:
        yield "task.sh: a signal before the ranks are there does not end it"
    if not stage.end(("bash", "-c", f"node=7\n{handlers[1]}"), {}, 0).called("kill", "-s", "TERM", "7"):
        yield f"task.sh at signal TERM: `{handlers[1]}` does not tell the ranks to save"


def _mounts(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = [
        {"kind": "volume", "source": source, "target": target, "read_only": False}
        for target, source in (task.get("volumes") or {}).items()
    ]
    for target, said in (task.get("file_mounts") or {}).items():
        source = str(said.get("source", "")) if isinstance(said, Mapping) else ""
        is_mounted = said.get("mode", "MOUNT") == "MOUNT" if source else False  # else it is copied, or cached
        if is_mounted and re.match(r"\w+://", source):
            found.append({"kind": "bucket", "source": source, "target": target, "read_only": False})
    return found
