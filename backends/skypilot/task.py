"""The SkyPilot task, as data. Each leaf is a function of the views `plan` and `options`, for `jobc why`.

Source: SkyPilot 0.14.1, docs.skypilot.co/en/latest/reference/yaml-spec.html, and its schema (schema.py).
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ...compiler.api import Given, LaunchPlan, of, sh
from ...compiler.emit.extra_entries import merge_extra_entries
from ...compiler.plan.launch_plan import to_mutable_tree
from ...runtime.exit_codes import PEER_LOST, PREEMPTED
from ...runtime.run_folder.submitted_values import PATH_VARIABLES
from .._shared.gpus import offered_gpu_counts
from .config import needs_pods, task_config_section
from .options import AlternativeMachine, SkypilotOptions, infra_cloud

GIB = 1024**3
FABRICS = ("infiniband", "roce", "efa", "tcpx", "slingshot")
# SkyPilot recovers a managed job if any node exits with one of these; join.py makes the nodes agree (D13).
AGAIN = [PEER_LOST, PREEMPTED]
DIGEST = "task_digest"  # key in job.json by which `run` recognizes this artifact
FROM_SUBMIT = ("JOBC_ARTIFACT", "JOBC_RUN_ID", "JOBC_ATTEMPT", "JOBC_FORK_OF")  # empty if launched by hand


def task_document(plan: LaunchPlan, options: SkypilotOptions) -> Any:
    tree = {
        "name": lambda v: to_cluster_name(v.plan.name),
        "num_nodes": of.plan.topology.nodes,
        "workdir": Given(workdir),
        "resources": resources_section(),
        "volumes": Given(lambda v: {m.target: m.source for m in v.plan.mounts if m.kind == "volume"} or None),
        "file_mounts": Given(file_mounts),
        "envs": {
            "JOBC_PAYLOAD": "train",
            "JOBC_PLAN": of.whole.digest,
            **dict.fromkeys(FROM_SUBMIT, ""),
            **{name: partial(_job_variable, name) for name in setup_variables(plan)},
        },
        "secrets": Given(lambda v: dict.fromkeys(secret_variables(v.plan)) or None),
        "config": Given(task_config_section),
        "setup": Given(setup_script),
        "run": run_script,
    }
    return merge_extra_entries(tree, options.extra)


def setup_variables(plan: LaunchPlan) -> Mapping[str, str]:
    """Return the variables of `env` for backend.setup; launch.sh sets them for the ranks."""
    variables = plan.env.items()
    return {name: word for name, word in variables if isinstance(word, str) and name not in PATH_VARIABLES}


def _job_variable(name: str, v: Any) -> str:
    return str(v.plan.env[name])


def artifact_digest(plan: LaunchPlan) -> str:
    """Return a digest that distinguishes this artifact from older ones on the nodes, which SkyPilot never removes."""
    parts = [plan.name, plan.topology.world_size, plan.command, dict(plan.env), to_mutable_tree(plan.train)]
    parts += [to_mutable_tree(extra) for extra in (plan.accelerate_extra, plan.deepspeed_extra) if extra]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:8]


def resources_section() -> dict[str, Any]:
    return {
        "infra": Given(infra_with_partition),
        "instance_type": Given(of.options.instance_type),
        "accelerators": Given(lambda v: accelerators(v.plan, v.plan.resources.gpu_type)),
        "cpus": Given(lambda v: f"{v.plan.resources.cpus}+" if v.plan.resources.cpus else None),
        "memory": Given(lambda v: f"{gib}+" if (gib := to_gib(v.plan.resources.mem_bytes)) else None),
        "use_spot": Given(lambda v: v.options.use_spot or None),
        "network_tier": Given(lambda v: v.options.network_tier or _network_tier(v.plan)),
        "disk_size": Given(lambda v: to_gib(v.options.disk_size)),
        "disk_tier": Given(of.options.disk_tier),
        "ports": Given(lambda v: list(v.options.ports) or None),
        "image_id": Given(image_id),
        "labels": Given(lambda v: dict(v.plan.labels) or None),
        "priority": Given(lambda v: int(text) if is_integer(text := v.plan.queue.priority) else None),
        "priority_class": Given(lambda v: None if is_integer(text := v.plan.queue.priority) else text),
        "autostop": Given(autostop),
        "job_recovery": Given(job_recovery),
        "any_of": Given(lambda v: any_of_entries(v.plan, acceptable_machines(v.plan, v.options))),
        "ordered": Given(lambda v: any_of_entries(v.plan, v.options.ordered)),
    }


def sky_verb(options: SkypilotOptions) -> str:
    return "sky jobs launch" if options.managed else "sky launch"


def to_cluster_name(text: str) -> str:
    """Return text as a valid SkyPilot cluster name, which starts with a letter and ends with a letter or digit."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", text)
    return (name if name[:1].isalpha() else f"j-{name}").rstrip("._-")


def accelerators(plan: LaunchPlan, gpu_type: str | None) -> str | None:
    return f"{gpu_type}:{plan.topology.gpus}" if plan.topology.gpus and gpu_type else None


def acceptable_machines(plan: LaunchPlan, options: SkypilotOptions) -> tuple[AlternativeMachine, ...]:
    """Return the acceptable machines: backend.any_of or, if the job sets no GPU type, one for each of `gpu_types`."""
    types = gpu_types_with_count(plan, options)
    return options.any_of or tuple(AlternativeMachine(None, gpu_type, None, None) for gpu_type in types)


def gpu_types_with_count(plan: LaunchPlan, options: SkypilotOptions) -> list[str]:
    """Return the `gpu_types` that machines offer in the job's GPU count, or [] if the job sets a type or a machine."""
    count = plan.topology.gpus
    is_open = plan.resources.gpu_type is None and options.instance_type is None
    if not count or not is_open or options.any_of or options.ordered:
        return []
    offers = {gpu_type: offered_gpu_counts(options.cloud, gpu_type) for gpu_type in options.gpu_types}
    return [gpu_type for gpu_type, counts in offers.items() if counts is None or count in counts]


def any_of_entries(plan: LaunchPlan, machines: Iterable[AlternativeMachine]) -> list[dict[str, Any]] | None:
    entries = [
        {
            "infra": add_partition_to_infra(machine.infra, plan),
            "accelerators": accelerators(plan, machine.gpu_type),
            "use_spot": machine.use_spot,
            "image_id": machine.image_id,
        }
        for machine in machines
    ]
    return [{key: value for key, value in entry.items() if value is not None} for entry in entries] or None


def infra_with_partition(v: Any) -> str | None:
    """Return the infra, with `queue.name` as the partition on Slurm, or "k8s" if the task must run in pods."""
    if needs_pods(v.plan, v.options):
        return "k8s"
    return add_partition_to_infra(v.options.infra, v.plan)


def add_partition_to_infra(asked: str | None, plan: LaunchPlan) -> str | None:
    """Return slurm/CLUSTER with `queue.name` as its partition. Other infras are returned unchanged."""
    queue = plan.queue.name
    is_whole = asked is None or infra_cloud(asked) != "slurm" or asked.count("/") != 1
    return asked if is_whole or queue is None else f"{asked}/{queue}"


def autostop(v: Any) -> dict[str, Any] | None:
    """Return the autostop section, or None for a managed job, whose cluster is deleted with the job."""
    minutes = idle_minutes(v.options)
    return None if v.options.managed or minutes is None else {"idle_minutes": minutes, "down": v.options.down}


def idle_minutes(options: SkypilotOptions) -> int | None:
    """Return after how many idle minutes autostop stops or deletes the machines, or None without autostop."""
    return None if options.autostop is None else math.ceil(options.autostop / 60)


def job_recovery(v: Any) -> dict[str, Any] | None:
    """Return a managed job's job_recovery section. Its recoveries have no limit: jobctl join counts the attempts."""
    if not v.options.managed:
        return None
    strategy = {"strategy": v.options.strategy} if v.options.strategy else {}
    codes = AGAIN if v.plan.lifecycle.max_requeues else []
    return {**strategy, "max_restarts_on_errors": 0, "recover_on_exit_codes": codes}


def workdir(v: Any) -> Any:
    if v.plan.code.kind != "git":
        return "."
    return {"url": v.plan.code.repository, "ref": v.plan.code.commit}


def file_mounts(v: Any) -> dict[str, Any] | None:
    mounts: dict[str, Any] = dict(v.options.file_mounts)
    mounts |= {m.target: {"source": m.source, "mode": "MOUNT"} for m in v.plan.mounts if m.kind == "bucket"}
    if v.plan.code.kind == "git":
        mounts[artifact_path_on_node(v.plan)] = "."
    return mounts or None


def artifact_path_on_node(plan: LaunchPlan) -> str:
    """Return the artifact's path on a node for code=git, where the working directory is a repository."""
    return f"~/.jobc/{to_cluster_name(plan.name)}"


def secret_variables(plan: LaunchPlan) -> list[str]:
    """Return the submitting shell's environment variables that become SkyPilot secrets."""
    return sorted({secret.ref for secret in plan.secrets.values() if secret.kind == "env"})


def result_location_hint(plan: Any) -> str:
    """Return a hint on where to find the result of a run that SkyPilot no longer lists."""
    if plan.run.storage == "object":
        return "see the run's exit/ and logs/ in the bucket; jobctl logs --rank 0 reads them"
    if plan.run.storage == "node":
        up = "check while the cluster is up, or keep it up with backend.autostop=null"
        return f"the disks were deleted with the nodes: {up}"
    return "see the run's exit/ and logs/ on its storage"


def setup_script(v: Any) -> str | None:
    """Return the setup script.

    SkyPilot runs it at every launch. The script skips the user's lines if a marker file exists. The marker's name
    depends on these lines, on `env` and on all files of the code (with code=git, on the commit).
    """
    lines, code = v.options.setup, v.plan.code
    if not lines:
        return None
    variables = [f"{name}={value}" for name, value in setup_variables(v.plan).items()]
    digest = hashlib.sha256("\n".join(filter(None, [*lines, code.commit, *variables])).encode()).hexdigest()[:8]
    inner = "".join(f"  {line}\n" for line in lines)
    scope = "with this code on this cluster" if code.kind in ("snapshot", "git") else "on this cluster"
    if code.kind == "snapshot":
        enter = (
            "sent=''\n"
            "# jobctl submit sends the code to $JOBC_RUN_ID/code; without jobctl, the code is in this folder.\n"
            "if [[ -n $JOBC_RUN_ID && -d $JOBC_RUN_ID/code ]]; then\n"
            '  cd -- "$JOBC_RUN_ID/code"\n'
            "  sent=$(find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum | cut -c 1-8)\n"
            "fi\n"
        )
        mark, is_wanted = f"{digest}-$sent", "-z $sent || ! -e $mark"
    else:
        enter, mark, is_wanted = "", digest, "! -e $mark"
    return (
        "set -euo pipefail\n"
        f"{enter}"
        f"mark=~/.jobc/setup-{mark}-$(uname -n) # so that the next launch {scope} skips it\n"
        f"if [[ {is_wanted} ]]; then\n"
        f"{inner}"
        '  mkdir -p -- "${mark%/*}" && touch -- "$mark"\n'
        "fi\n"
    )


def run_script(v: Any) -> str:
    """Return each node's `run` script, which finds the artifact among the sent files and runs `jobctl join`."""
    enter = f"cd -- {artifact_path_on_node(v.plan)}\n" if v.plan.code.kind == "git" else ""
    places = f'"$JOBC_ARTIFACT" {sh(f"artifacts/{v.plan.run.folder}/skypilot")} .'
    launch = sky_verb(v.options)
    hint = f"run {launch} in the folder that contains task.sky.yaml or artifacts/; neither may be in .gitignore"
    return (
        f"{enter}# The artifact: where jobctl submit put it, or in the folder where `{launch}` was called by hand.\n"
        f"for artifact in {places}; do\n"
        f'  if grep -qs "{DIGEST}.*$JOBC_PLAN" "$artifact/.jobc/job.json"; then\n'
        '    exec python3 -I -S "$artifact/jobctl" join\n'
        "  fi\n"
        "done\n"
        f'printf "error: %s\\n  hint: %s\\n" "jobctl is missing in the files sent to $(uname -n)" {sh(hint)} >&2\n'
        "exit 65 # invalid configuration: a restart will not help\n"
    )


def _network_tier(plan: LaunchPlan) -> str | None:
    return "best" if plan.topology.nodes > 1 and plan.network.profile in FABRICS else None


def is_integer(text: str | None) -> bool:
    return re.fullmatch(r"0|-?[1-9][0-9]{,17}", text or "") is not None


def to_gib(size: int | None) -> int | None:
    return math.ceil(size / GIB) if size else None


def image_id(v: Any) -> str | None:
    return f"docker:{v.plan.container.image}" if v.plan.container.image else v.options.image_id
