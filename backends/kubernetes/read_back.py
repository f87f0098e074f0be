"""Reads back job.yaml: the pod template in it, wherever the kind of object has it, and how often it may start again.

Source  Kubernetes API reference 1.32 to 1.37: Job, Pod, resource quantities; JobSet v1alpha2; Trainer v1alpha1
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...compiler.equivalence.ends import ends_alike, hands_on
from ...compiler.equivalence.reading import ARTIFACT, Onward, Reading, Stage, Start, Unreadable
from ...compiler.equivalence.yaml_file import Section, quantity, read_documents
from .._shared.kubernetes_fields import check, fitted
from . import fixed
from .unasked import unasked

CONTAINER = "node"
IN_THE_POD = (
    "task.sh", "node.sh", "train.json", "spec.yaml", "bucket.sh", "accelerate.yaml", "deepspeed.json",
)  # fmt: skip # and the library
OF_LONE_POD = (  # what pod.yaml has otherwise than the pods of the job, or not at all
    "subdomain", "topologySpreadConstraints", "initContainers", "nodeSelector", "affinity", "containers",
    "terminationGracePeriodSeconds",
)  # fmt: skip
OF_RUN = ("JOBC_RUN_ID", "JOBC_PAYLOAD", "JOBC_FORK_OF")
MARGIN_S = 10  # plan.lifecycle.kill_after_s
HOSTNAME = "kubernetes.io/hostname"
WAIVED = {
    "queue.account": "a cluster has namespaces and queues, no accounts",
    "code.root": "the folder of the image, or of the commit; task.sh is not where the job was compiled",
    "network.interface": "a pod has one interface, and node.sh takes it",
}

OF_TRAINJOB = {"lifecycle.keep_s": "it has no ttlSecondsAfterFinished, and stays until somebody deletes it"}


def read_back(stage: Stage) -> Reading:
    documents = read_documents(stage.files, "job.yaml")
    for document in documents:
        _need_known(document)
    main = documents[-1]
    job = next((found for d in documents for found in _holding(d, "completions")), None)
    pod = next((found for d in documents for found in _holding(d, "containers")), None)
    if job is None or pod is None:
        raise Unreadable("job.yaml has no Job with pods in it")
    container = next((c for c in pod.sections("containers") if c["name"] == CONTAINER), None)
    if container is None:
        raise Unreadable(f"{pod.place}: the pod has no container {CONTAINER}")
    nodes = job.whole("completions")
    if nodes < 1:
        raise Unreadable(f"{job.place}: completions is {nodes}, and starts nothing")
    for name, wanted in (("parallelism", nodes), ("completionMode", "Indexed")):
        if job.get(name) != wanted:
            raise Unreadable(f"{name} is {job.get(name)}, and {wanted} would start each node once, all at a time")
    bundle = read_documents(stage.files, "kustomization.yaml")[0]
    _need_files(bundle, stage)
    words = (*container["command"], *container.get("args", ()))
    starts = tuple(Start(words, dict(_environment(container, index))) for index in range(nodes))
    facts = {**_job_facts(documents, main, job, nodes), **_pod_facts(pod, container, stage)}
    facts |= _first(pod, container, nodes, stage)
    template = next(found["template"] for d in documents for found in _holding(d, "completions"))
    whole = {**{document["kind"]: document for document in documents}, fixed.POD: template, fixed.BUNDLE: bundle}
    trees = {kind: fixed.by_name(tree) for kind, tree in whole.items()}
    of_task = (read(stage, starts[0], "task.sh") for read in (ends_alike, hands_on))
    wrong = (*fixed.mistakes(trees, main["metadata"]["name"], nodes), *_shell(pod, container, stage))
    wrong += tuple(words for found in of_task for words in found)
    asked, most = (container["resources"].get(name, {}) for name in ("requests", "limits"))
    if any(asked.get(name) != size for name, size in most.items() if name == "memory" or name.endswith("/gpu")):
        wrong += (f"{container.place}: requests and limits differ in memory or GPUs",)
    waived = {**WAIVED, **(OF_TRAINJOB if main["kind"] == "TrainJob" else {})}
    facts["topology.nodes"] = nodes
    return Reading(starts, _head(documents, main, pod), facts, waived, wrong, unasked(trees), Onward("task.sh"))


def _need_known(document: Section) -> None:
    """Fields that the API server would refuse: it decodes strictly."""
    for key in document:
        if key not in ("apiVersion", "kind", "metadata", "spec"):
            raise Unreadable(f"{document.place}: {document['kind']} has no field {key}")
    kind = document["kind"]
    tree = {k: v for k, v in document.items() if kind != "Pod" or k in ("metadata", "spec")}  # a template has no more
    for refused in check({kind: _frozen(tree)}):
        raise Unreadable(f"{document.place}: {refused.title.removeprefix('backend.extra.')}")
    for key, value in _unlike(tree, fitted(kind, tree), kind):
        raise Unreadable(f"{document.place}: {key}: {value!r} is no text, and Kubernetes wants it in quotes")


def _unlike(tree: Any, wanted: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Leaves that are of another type than the API has them, with their place."""
    if isinstance(tree, dict):
        for name, inner in tree.items():
            yield from _unlike(inner, wanted[name], f"{key}.{name}")
    elif isinstance(tree, list):
        for i, inner in enumerate(tree):
            name = inner.get("name", i) if isinstance(inner, dict) else i
            yield from _unlike(inner, wanted[i], f"{key}.{name}")
    elif type(tree) is not type(wanted):
        yield key, tree


def _frozen(tree: Any) -> Any:
    """With lists as tuples, as plans have them."""
    if isinstance(tree, dict):
        return {key: _frozen(value) for key, value in tree.items()}
    return tuple(_frozen(item) for item in tree) if isinstance(tree, list) else tree


def _holding(tree: Any, name: str) -> Iterator[Section]:
    """Every mapping in it that has that key."""
    if isinstance(tree, Section):
        if name in tree:
            yield tree
        for inner in tree.values():
            yield from _holding(inner, name)
    elif isinstance(tree, list):
        for item in tree:
            yield from _holding(item, name)


def _first(pod: Section, container: Section, nodes: int, stage: Stage) -> dict[str, Any]:
    """The container that checks each node before the job's own starts: alike, and what it asks preflight.py for."""
    other = next((c for c in pod.get("initContainers", ()) if list(c.get("command", ()))[2:] == ["init"]), None)
    if other is None:
        return {"backend.preflight": False} if nodes > 1 else {}
    wrong = [key for key in ("image", "volumeMounts", "securityContext") if other.get(key) != container.get(key)]
    own = {entry["name"]: entry for entry in container["env"]}
    first = {entry["name"]: entry for entry in other["env"]}  # without the user's own
    wrong += [name for name in own if name.startswith("JOBC_") and name not in first]
    wrong += [name for name, entry in first.items() if own.get(name) != entry]
    wrong += ["command"] if other["command"][:2] != container["command"] else []
    limits = (other["resources"].get("limits", {}), container["resources"].get("limits", {}))
    wrong += ["memory"] if limits[0].get("memory") != limits[1].get("memory") else []
    if wrong:
        raise Unreadable(f"{other.place}: {other['name']} has another {', '.join(wrong)} than container {CONTAINER}")
    environment = dict(_environment(other, 0))
    calls = stage.run(("bash", f"{ARTIFACT}/task.sh", "init"), environment)
    asked = next((call.words for call in calls if any(word.endswith("/preflight.py") for word in call.words)), ())
    said = dict(word[2:].partition("=")[::2] for word in asked if word.startswith("--"))
    for option, variable in (("port", "JOBC_HEAD_PORT"), ("run-root", "JOBC_RUN_ROOT")):
        if said.get(option, "").removesuffix("/node_00") != environment.get(variable):  # of a bucket, for each node
            raise Unreadable(f"task.sh init asks preflight.py for --{option}={said.get(option)}, not {variable}")
    if "apart" not in said or said.get("gpus") != "0":
        raise Unreadable("task.sh init calls preflight.py without --apart --gpus=0: nodes come one by one")
    interface = said.get("interface", "not told") or None
    return {"backend.preflight": True, "topology.procs": int(said.get("procs", "0")), "network.interface": interface}


def _shell(pod: Section, container: Section, stage: Stage) -> Iterator[str]:
    """pod.yaml, in which shell.sh and logs.sh look around, is the job's pod, but for its place and its GPUs."""
    if "pod.yaml" not in stage.files:
        return
    document = read_documents(stage.files, "pod.yaml")[0]
    _need_known(document)
    lone, other = document["spec"], document["spec"].sections("containers")[0]
    wrong = sorted(k for k in (pod.keys() | lone.keys()) - {*OF_LONE_POD} if pod.get(k) != lone.get(k))
    changed = {"command", "resources", "env"}
    wrong += sorted(k for k in (container.keys() | other.keys()) - changed if container.get(k) != other.get(k))
    own = {entry["name"]: entry for entry in container["env"]}
    its = {entry["name"]: entry for entry in other["env"]}
    wrong += sorted(own.keys() ^ its.keys())  # another value has, beside those of the run, what a field of a pod says
    wrong += [n for n in own.keys() & its.keys() if "value" in own[n] and own[n] != its[n] and n not in OF_RUN]
    if wrong:
        yield f"pod.yaml: its pod has another {', '.join(wrong)} than that of job.yaml"


def _need_files(bundle: Section, stage: Stage) -> None:
    """What a node needs is in the ConfigMap, by the name under which task.sh unpacks it."""
    said = [entry for each in bundle.sections("configMapGenerator") for entry in each["files"]]
    brought = {key.replace("--", "/"): path for key, _, path in (entry.partition("=") for entry in said)}
    for path, file in brought.items():
        if file not in (path, ""):
            raise Unreadable(f"kustomization.yaml brings {file} to the pods as {path}")
    for path in stage.files:
        if (path in IN_THE_POD or path.startswith("lib/")) and path not in brought:
            raise Unreadable(f"kustomization.yaml does not bring {path} to the pods")
    for path in brought:
        if path not in stage.files and not path.startswith("lib/"):  # which a caller may have left out
            raise Unreadable(f"kustomization.yaml brings {path} to the pods, which is not there")


def _environment(container: Mapping[str, Any], index: int) -> Iterator[tuple[str, str]]:
    for entry in container["env"]:
        field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if "completion-index" in field:
            yield entry["name"], str(index)
        elif field or "valueFrom" in entry:
            yield entry["name"], f"from-{entry['name'].lower()}"
        else:
            value = str(entry["value"])
            if re.search(r"(?<!\$)\$\(", value):
                raise Unreadable(f"{entry['name']}: Kubernetes would put something else in for {value}")
            yield entry["name"], value.replace("$$", "$")


def _head(documents: Any, main: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """The name of the pod with index 0: JOB-0 below its Service; of a JobSet NAME-GROUP-JOB-0 below NAME."""
    name = main["metadata"]["name"]
    found = (group for d in documents for h in _holding(d, "replicatedJobs") for group in h["replicatedJobs"])
    group = next((each["name"] for each in found), "")
    if group:
        return f"{name}-{group}-0-0.{name}"
    return f"{name}-0.{pod.get('subdomain')}"


def _job_facts(documents: Any, main: Section, job: Section, nodes: int) -> dict[str, Any]:
    """A Job counts pods, a JobSet whole starts."""
    policy = next((p for d in documents for p in _holding(d, "maxRestarts")), None)
    starts = policy.whole("maxRestarts") if policy else job.whole("backoffLimit") / nodes
    facts: dict[str, Any] = {"lifecycle.max_requeues": int(starts) if starts == int(starts) else starts}
    labels = dict(main["metadata"].get("labels", {}))
    if main["kind"] != "TrainJob":
        facts["lifecycle.keep_s"] = main["spec"].get("ttlSecondsAfterFinished")
    timed = (found["activeDeadlineSeconds"] for d in documents for found in _holding(d, "activeDeadlineSeconds"))
    facts["backend.deadline"] = next(timed, None)
    facts |= {"queue.name": labels.pop("kueue.x-k8s.io/queue-name", None)}
    facts["labels"] = {key: value for key, value in labels.items() if key != "jobc/job"}
    rules = job.get("podFailurePolicy", {}).get("rules", [])
    codes = [sorted(r["onExitCodes"]["values"]) for r in rules if r.get("onExitCodes", {}).get("operator") == "NotIn"]
    if not codes or any(found != [69, 75] for found in codes):
        raise Unreadable(f"podFailurePolicy starts again after {codes}, and node.sh asks for it with 69 and 75")
    return facts


def _pod_facts(pod: Section, container: Section, stage: Stage) -> dict[str, Any]:
    wait_s = pod.whole("terminationGracePeriodSeconds") - MARGIN_S
    limits = container["resources"].get("limits", {})
    asked = container["resources"].get("requests", {})
    gpus = [quantity(count, name) for name, count in limits.items() if name.endswith("/gpu")]
    facts: dict[str, Any] = {
        "lifecycle.grace_s": wait_s // 2 if "join_bucket" in stage.files["task.sh"] else wait_s,
        "container.kind": "pod",
        "container.image": container["image"],
        "container.workdir": container.get("workingDir"),
        "topology.gpus": sum(gpus),
        "resources.cpus": quantity(asked["cpu"], "requests.cpu") if "cpu" in asked else None,
        "resources.mem_bytes": quantity(limits["memory"], "limits.memory") if "memory" in limits else None,
        "queue.priority": pod.get("priorityClassName"),
        "backend.host_network": pod.get("hostNetwork", False),
        "mounts": list(_mounts(pod, container)),
        **_hosts(pod),
    }
    facts["node_labels"] = _node_labels(pod)
    shm: dict[str, Any] = next((v["emptyDir"] for v in pod["volumes"] if v["name"] == "shm"), {})
    if "sizeLimit" in shm:
        facts["resources.shm_bytes"] = quantity(shm["sizeLimit"], "sizeLimit of shm")
    facts["secrets"] = {
        entry["name"]: ("k8s", f"{ref['name']}/{ref['key']}")
        for entry in container["env"]
        if (ref := entry.get("valueFrom", {}).get("secretKeyRef"))
    }
    return facts


def _mounts(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        if mount["name"].startswith("mount-"):
            kind, source = _source(volumes[mount["name"]])
            read_only = mount.get("readOnly", False)
            yield {"kind": kind, "source": source, "target": mount["mountPath"], "read_only": read_only}


def _source(volume: Mapping[str, Any]) -> tuple[str, str]:
    if claim := volume.get("persistentVolumeClaim"):
        return "claim", claim["claimName"]
    if nfs := volume.get("nfs"):
        return "nfs", f"{nfs['server']}:{nfs['path']}"
    if host := volume.get("hostPath"):
        return "host", host["path"]
    return "empty", volume["emptyDir"].get("sizeLimit", "")


def _node_labels(pod: Mapping[str, Any]) -> dict[str, list[str]]:
    """Label -> the values of which a node must have one."""
    rules = [rule for rule in _holding(_required(pod), "operator") if rule["operator"] == "In"]
    selected = {label: [value] for label, value in pod.get("nodeSelector", {}).items()}
    return {**selected, **{rule["key"]: rule["values"] for rule in rules}}


def _required(pod: Mapping[str, Any]) -> Any:
    rules = pod.get("affinity", {}).get("nodeAffinity", {})
    return rules.get("requiredDuringSchedulingIgnoredDuringExecution", {})


def _hosts(pod: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    rules = pod.get("affinity", {}).get("nodeAffinity", {})
    for rule in _holding(_required(pod), "operator"):
        if rule["key"] == HOSTNAME:
            facts["resources.hosts" if rule["operator"] == "In" else "queue.exclude"] = rule["values"]
    for rule in _holding(rules.get("preferredDuringSchedulingIgnoredDuringExecution", []), "operator"):
        if rule["key"] == HOSTNAME:
            facts["queue.nodelist"] = rule["values"]
    return facts
