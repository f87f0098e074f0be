"""The options of backend kubernetes: types and docs; the defaults are in conf/backend/kubernetes.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...compiler.spec.value_types import Bytes, CountOrZero, Duration, Path


@dataclass(frozen=True)
class KubernetesOptions:
    """flavor: which kind of object starts the pods; context, namespace: where, as kubectl knows them; records: folder
    of the submitting machine. start_timeout, deadline: seconds, the latter of all attempts, or with flavor jobset
    of each. preflight: an init container in each pod. The rest is of the pod, in Kubernetes' own words.

    gpu_labels: gpu_type -> values of gpu_label (gpu_types.py).
    requests, limits: resources of a pod by their names in Kubernetes, beside those of `cpus`, `mem` and `gpus`.
    extra: what is merged last into the documents of job.yaml (extra.py).
    pytorchjob is known only to be refused with its reason (JC4509).
    """

    flavor: Literal["job", "jobset", "trainjob", "pytorchjob"]
    context: str | None
    namespace: str | None
    records: Path
    start_timeout: Duration
    preflight: bool
    deadline: Duration | None
    default_image: str | None
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None
    image_pull_secrets: tuple[str, ...]
    service_account: str | None
    runtime_class: str | None
    node_selector: tuple[str, ...]
    tolerations: tuple[str, ...]
    affinity: str | None
    anti_affinity: str | None
    topology_spread: str | None
    gpu_resource: Literal["nvidia.com/gpu", "amd.com/gpu"]
    gpu_label: str | None
    gpu_labels: Mapping[str, tuple[str, ...]]
    shm_limit: Bytes
    network_resource: str | None
    gke_networks: tuple[str, ...]
    tcpx_daemon: str
    host_network: bool
    run_as_user: CountOrZero | None
    run_as_group: CountOrZero | None
    requests: Mapping[str, str] = field(metadata={"neutral": {}})
    limits: Mapping[str, str] = field(metadata={"neutral": {}})
    extra: Mapping[str, Any]
