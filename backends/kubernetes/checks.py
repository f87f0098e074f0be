"""What a Kubernetes API server, or its nodes, would refuse late or take in another sense; said now.

Most of it is not in the API's schema: names, labels and quantities are text there, and a wrong resource name or a
missing claim leaves pods Pending for ever (observed on v1.36.2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ...compiler.diagnostics import Diagnostic, Severity, has_errors
from ...compiler.neutral import library
from ...compiler.plan import LaunchPlan, Mount
from ...compiler.values import show_bytes
from .._shared.gpus import MOST_GPUS, USUAL_GPUS, most_at_site, most_in_cloud, spread
from . import checks_finished, extra, gpu_types, tcpx
from .devices import EFA, EFA_CARDS, EFA_GPUS, RDMA_PROFILES, is_resource, network_resource
from .names import LONGEST, asked, longest_pod, object_name
from .options import KubernetesOptions
from .places import is_reserved, place
from .texts import is_name, texts

KIB = 1024
MOST_CONFIG_KIB = 900  # of 1024, which etcd takes; the rest is for the object itself


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    yield from flavor(options)
    yield from image(plan)
    yield from names(plan, options)
    yield from storage(plan)
    for i, mount in enumerate(plan.mounts):
        yield from mounted(i, mount, plan.mounts)
    yield from texts(plan, options)
    yield from resources(plan)
    yield from gpus(plan)
    yield from gpu_types.check(plan, options)
    yield from secrets(plan)
    yield from size(plan)
    yield from network(plan, options)
    yield from tcpx_nodes(plan, options)
    yield from deadline(plan, options)
    yield from keep(plan, options)
    found = [*extra.check(plan, options)]
    yield from found
    if not has_errors(found):
        yield from checks_finished.check(plan, options)


def flavor(options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4509"""
    if options.flavor == "pytorchjob":
        because = "it restarts pods one by one, and the others wait for ranks that have lost them"
        hint = "backend.flavor=trainjob with Kubeflow Trainer 2, or backend.flavor=jobset"
        yield Diagnostic("JC4509", "PyTorchJob is not emitted", because, hint, key="backend.flavor")


def image(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4512"""
    if plan.container.image is None:
        because = "a pod is a container, whose image brings bash, Python and torch"
        hint = "container=pod env=image image=pytorch/pytorch:2.9.0"
        yield Diagnostic("JC4512", "a pod needs an image", because, hint, key="image")


def names(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4501"""
    longest = longest_pod(object_name(plan, options), options.flavor, plan.topology.nodes)
    if len(longest) > LONGEST:
        most = len(plan.name) - (len(longest) - LONGEST)
        because = f"it becomes {longest}, and {LONGEST} characters is the most that Kubernetes takes"
        hint = f"name={plan.name[:most].strip('._-')}"
        yield Diagnostic("JC4501", f"the name is too long, {most} characters fit", because, hint, key="name")


def storage(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4502: runs lie on a volume that all pods see, or in a bucket; JC4520: then there is no restart in place."""
    root = plan.run.root
    if plan.run.storage == "object":
        if plan.lifecycle.max_restarts and plan.topology.nodes > 1:
            because = "the pods agree on a restart in a run folder that all see; in a bucket the next attempt begins"
            hint = "lifecycle.max_restarts=0 with lifecycle.max_requeues, or storage.run=shared"
            yield Diagnostic("JC4520", "no restart in place", because, hint, key="lifecycle.max_restarts")
        return
    lasting = [mount for mount in plan.mounts if mount.kind != "empty" and not mount.read_only]
    if not any(_below(root, mount.target) for mount in lasting):
        because = (
            f"storage.root={root} is in the pod's own file system, and ends with it: it is below no mount that lasts"
        )
        if lasting:
            hint = f"storage.root={lasting[0].target.rstrip('/')}/runs"
        else:
            hint = "mounts=[{kind: claim, source: CLAIM, target: /shared, read_only: false}] storage.root=/shared/runs"
        yield Diagnostic("JC4502", "the runs are on no volume", because, hint, key="storage.root")


def _below(path: str, folder: str) -> bool:
    return path.startswith("/") and PurePosixPath(path).is_relative_to(PurePosixPath(folder))


def mounted(i: int, mount: Mount, mounts: tuple[Mount, ...]) -> Iterator[Diagnostic]:
    """JC4503"""
    key = f"mounts.{i}"

    def refuse(title: str, because: str, hint: str) -> Iterator[Diagnostic]:
        yield Diagnostic("JC4503", f"{key}: {title}", because, hint, key="mounts")

    if mount.kind in ("volume", "bucket"):
        because = "a pod mounts a claim, a host's folder, an NFS export, or an empty folder"
        yield from refuse(f"no {mount.kind} in a pod", because, "kind: claim")
    elif mount.kind == "claim" and not is_name(mount.source):
        because = "a claim's name is a-z, 0-9, dash and dot, at most 253 characters"
        yield from refuse(f"no claim {mount.source!r}", because, "kubectl get persistentvolumeclaims lists them")
    elif mount.kind == "nfs" and not re.fullmatch(r"[^/:\s]+:/.*", mount.source):
        yield from refuse(f"no export {mount.source!r}", "an NFS source is a server and a path", "source: SERVER:/PATH")
    elif mount.kind == "host" and not mount.source.startswith("/"):
        yield from refuse(f"no folder {mount.source!r}", "a folder of a node is an absolute path", "source: /PATH")
    elif mount.kind == "empty" and mount.source and not re.fullmatch(r"[1-9][0-9]*([KMGT]i)?", mount.source):
        because = "the source of an empty folder is its most, and Kubernetes writes sizes so"
        yield from refuse(f"no size {mount.source!r}", because, "source: 10Gi, or empty text for no limit")
    if not mount.target.startswith("/") or ":" in mount.target or is_reserved(mount.target):
        because = "it is an absolute path without a colon, and would hide what is in the image or what jobc puts there"
        yield from refuse(f"target {mount.target}", because, "target: /shared")
    elif place(mount.target) in [place(other.target) for other in mounts[:i]]:
        instead = f"target: {place(mount.target)}-{i}"
        yield from refuse(f"target {mount.target} is taken", "a pod has one volume at a path", instead)


def resources(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4508: shared memory beyond the pod's memory."""
    shm, memory = plan.resources.shm_bytes, plan.resources.mem_bytes
    if shm and memory and shm >= memory:
        because = "/dev/shm counts into the memory of the pod, which is killed when it is full (137)"
        yield Diagnostic("JC4508", "shm is not less than mem", because, f"mem={show_bytes(2 * shm)}", key="shm")


def gpus(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4505: GPUs that no node has, or hardly one."""
    count, kind = plan.topology.gpus, plan.resources.gpu_type
    most = (most_at_site(kind) if kind else None) or MOST_GPUS
    usual = min(USUAL_GPUS, (most_in_cloud(kind) if kind else None) or USUAL_GPUS)
    if count <= usual:
        return
    of = f" of type {kind}" if kind else ""
    rare = count <= most
    some = f"few machines have more than {usual}{of}" if rare else f"no machine has more than {most}{of}"
    because = f"{some}, and pods that fit no node are Pending for ever; gpus is per node, 1 to {usual}"
    hint = spread(count, plan.topology.nodes, usual)
    severity = Severity.WARNING if rare else Severity.ERROR
    yield Diagnostic("JC4505", f"{count} GPUs{of} on a node", because, hint, key="gpus", severity=severity)


def secrets(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4506"""
    for name, secret in plan.secrets.items():
        object_, _, key = secret.ref.partition("/")
        if secret.kind == "k8s" and not (is_name(object_) and re.fullmatch(r"[-\w.]+", key)):
            title = f"secrets.{name} names no key of a Secret"
            because = "it is k8s:SECRET/KEY, and a Secret's name is a-z, 0-9, dash and dot"
            hint = f"secrets.{name}=k8s:my-secret/token, of `kubectl create secret generic my-secret --from-file=token`"
            yield Diagnostic("JC4506", title, because, hint, key=f"secrets.{name}")


def size(plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC4507: the scripts, the trainer and train.json in one ConfigMap. The job's own text is in several of them."""
    library_size = sum(len(file.text.encode()) for file in library())
    own_size = len(json.dumps(asked(plan), ensure_ascii=False).encode())
    total = (library_size + 4 * own_size) // KIB
    if total > MOST_CONFIG_KIB:
        because = f"the artifact travels in a ConfigMap, which holds {MOST_CONFIG_KIB} KiB; this one would have {total}"
        hint = "long text belongs into a file: in the image (code=image), or on a mounted volume (code=shared)"
        yield Diagnostic("JC4507", "the job is too large for a ConfigMap", because, hint)


def network(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4510"""
    resource, key = options.network_resource, "backend.network_resource"
    if resource is not None and not is_resource(resource):
        because = "it is the resource of a device plugin and how many a pod gets"
        yield Diagnostic("JC4510", f"{key}: {resource!r} is no NAME:COUNT", because, f"{key}=rdma/hca:1", key=key)
    fabric = plan.network.profile
    if network_resource(plan, options) is None and fabric in RDMA_PROFILES and not options.host_network:
        because = f"a pod sees the devices of network={fabric} only as a resource; else NCCL takes TCP"
        example = f"{EFA}:32" if fabric == "efa" else "rdma/hca_shared_devices_a:1"
        hint = f"{key}={example}; `kubectl describe node` shows the name and how many there are"
        if fabric == "efa" and plan.topology.gpus == EFA_GPUS and plan.resources.gpu_type is None:
            hint = f"gpu_type=H100, of which a machine has {EFA_CARDS['H100']} of them, or {hint}"
        yield Diagnostic("JC4510", "no resource gives the pods their network devices", because, hint, key=key)


def tcpx_nodes(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4518"""
    if plan.network.profile != "tcpx":
        return
    if len(options.gke_networks) != tcpx.NETWORKS:
        title = f"network=tcpx needs {tcpx.NETWORKS} networks of the cluster, not {len(options.gke_networks)}"
        because = "each card of the GPUs has its own; `kubectl get networks.networking.gke.io` lists them"
        hint = "backend.gke_networks=[vpc1,vpc2,vpc3,vpc4]"
        yield Diagnostic("JC4518", title, because, hint, key="backend.gke_networks")
    if plan.topology.gpus != tcpx.GPUS:
        because = "the cards are those of a3-highgpu-8g, of which a pod takes all GPUs"
        hint = f"gpus={tcpx.GPUS}, or network=auto"
        yield Diagnostic("JC4518", f"network=tcpx with {plan.topology.gpus} GPUs on a node", because, hint, key="gpus")
    if options.host_network:
        because = "GKE gives a pod the networks of the cards, which one on the host network has not"
        hint = "backend.host_network=false"
        yield Diagnostic("JC4518", "network=tcpx on the host network", because, hint, key="backend.host_network")


def deadline(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4511"""
    limit = plan.lifecycle.time_limit_s + plan.lifecycle.kill_after_s
    if options.deadline == 0:
        title, because = "the deadline is before the start", "Kubernetes would end the pods at once; it is at least 1s"
        hint = "backend.deadline=null, which is none"
        yield Diagnostic("JC4511", title, because, hint, key="backend.deadline")
        return
    if options.deadline is not None and plan.lifecycle.time_limit_s and options.deadline < limit:
        because = "it would end the pods while an attempt is within its time, and none begins after it"
        hint = f"backend.deadline=null, or at least backend.deadline={limit}s"
        yield Diagnostic("JC4511", "the deadline is before the time limit", because, hint, key="backend.deadline")


def keep(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4102: of Trainer 2.3 a TrainJob has no ttlSecondsAfterFinished, and one of its JobSet would leave it there."""
    if options.flavor == "trainjob" and plan.lifecycle.keep_s is not None:
        because = "a TrainJob stays until it is deleted: `submit.sh --replace` does so; the job is the same without"
        hint = "backend.flavor=jobset, or lifecycle.keep=null"
        title = "backend.flavor=trainjob leaves out lifecycle.keep"
        yield Diagnostic("JC4102", title, because, hint, key="lifecycle.keep", severity=Severity.NOTE)
