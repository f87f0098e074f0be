"""The options of backend kubernetes: types and docs; the defaults are in conf/backend/kubernetes.yaml."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from ...compiler.spec.value_types import Bytes, CountOrZero, Duration, Path
from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class KubernetesOptions:
    """Options of backend kubernetes. Fields not listed here are fields of the pod, under their Kubernetes names.

    flavor: kind of object that starts the pods. `pytorchjob` exists only so that JC4509 can explain why it is rejected.
    context, namespace: where the job runs, as in kubectl's options of the same names
    records: folder on the submitting machine for the run records
    start_timeout: seconds
    deadline: seconds for all attempts together or, with flavor `jobset`, for each attempt
    preflight: whether each pod runs checks first
    gpu_labels: gpu_type -> values of gpu_label
    requests, limits: a pod's resources by their Kubernetes names, in addition to `cpus`, `mem` and `gpus`
    extra: trees merged last into the documents of job.yaml (extra_fields.py)
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
    pod_security: Literal["restricted"] | None = field(metadata={"neutral": None})
    requests: Mapping[str, str] = field(metadata={"neutral": {}})
    limits: Mapping[str, str] = field(metadata={"neutral": {}})
    extra: Mapping[str, Any]
