"""Single fields of `backend.extra`: JC2006, JC4513, JC4515, JC4522, JC4550."""

from collections.abc import Iterator, Mapping
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic, nearest
from .....compiler.plan.launch_plan import LaunchPlan
from .....compiler.spec.derived_variables import is_derived
from .....compiler.spec.secret_scan import is_secret_name
from ...._shared import kubernetes_fields as fields
from ...._shared import kubernetes_formats as forms
from ... import tcpx
from ...extra_fields import KEY, KINDS, POD, VARIABLES
from ...options import KubernetesOptions

EXAMPLE = "nameservers=[10.96.0.10] and dnsConfig.searches=[NAMESPACE.svc.cluster.local]"
_SPEC = f"{KEY}.{POD}.spec"


def validated_extra(options: KubernetesOptions) -> Mapping[str, Any]:
    """Return everything that `backend.extra` adds, or {} if Kubernetes does not know one of the fields (JC4540)."""
    return {} if [*fields.check(options.extra)] else options.extra


def extra_pod_spec(options: KubernetesOptions) -> Mapping[str, Any]:
    """Return the additions to the pod spec, with named items as lists, or {} if there are none."""
    pod = validated_extra(options).get(POD)
    spec = fields.to_api_form(POD, pod).get("spec") if isinstance(pod, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}


def check_unknown_document(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4513: a key of backend.extra that is not an emitted document, or a value that is not a mapping."""
    kinds = (POD, *KINDS[options.flavor])
    for kind, tree in options.extra.items():
        if kind not in kinds:
            close = nearest(kind, kinds) or kinds
            because = f"flavor {options.flavor} emits {', '.join(kinds)}"
            hint = f"{KEY}.{close[0]}.metadata.annotations.NAME=VALUE"
            yield Diagnostic("JC4513", f"{KEY}.{kind} is not an emitted document", because, hint, key=f"{KEY}.{kind}")
        elif not isinstance(tree, Mapping):
            title, because = f"{KEY}.{kind} is a document", "a document must be a mapping, not a single value"
            hint = f"{KEY}.{kind}.metadata.annotations.NAME=VALUE"
            yield Diagnostic("JC4513", title, because, hint, key=f"{KEY}.{kind}")


def check_inconsistent_pod(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4550: a container without an image, a volume without a source, or a mount of a volume that does not exist."""
    volumes = ["files", "artifact", "shm", *(f"mount-{i}" for i in range(len(plan.mounts)))]
    if plan.network.profile == "tcpx":
        volumes += [volume["name"] for volume in tcpx.tcpx_volumes()]
    for path, why in forms.find_pod_inconsistencies(extra_pod_spec(options), ("node",), volumes):
        key = ".".join((KEY, POD, "spec", *path))
        because = "the API server would reject the job"
        yield Diagnostic("JC4550", f"{key}: {why}", because, f"complete the value, or remove {key}", key=key)


def check_derived_variable(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC2006: a rank variable that jobc derives. JC4600 covers the variables that the plan sets."""
    node_containers = (c for c in extra_pod_spec(options).get("containers") or () if c.get("name") == "node")
    names = (entry.get("name", "") for container in node_containers for entry in container.get("env") or ())
    for name in names:
        if name not in VARIABLES and is_derived(name):
            key = f"{KEY}.{POD}.spec.containers.node.env.{name}"
            because = "a value that you set would contradict the launcher's value"
            yield Diagnostic("JC2006", f"{key} is derived and cannot be set", because, f"remove {key}", key=key)


def check_secret_in_variable(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4515: a plain-text secret, found by its variable's name. secret_scan.py finds tokens in any text."""
    spec = extra_pod_spec(options)
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            for entry in container.get("env") or ():
                name, value = entry.get("name", ""), entry.get("value")
                if isinstance(value, str) and value and is_secret_name(name):
                    title = f"{KEY} has a variable {name} that looks like a secret"
                    because = (
                        "job.yaml and spec.yaml would show the secret in plain text to everyone who can read the run"
                    )
                    hint = f"secrets.{name}=k8s:SECRET/KEY, or valueFrom: {{secretKeyRef: …}} in place of value"
                    yield Diagnostic("JC4515", title, because, hint, key=f"{KEY}.{POD}", private=True)


def check_unresolvable_head(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4522: DNS settings that prevent pods from resolving node 0, whose name is relative to a search domain.

    Source: Kubernetes 1.37, "DNS for Services and Pods".
    """
    spec = extra_pod_spec(options)
    if "dnsPolicy" not in spec:
        return
    policy, config = spec["dnsPolicy"] or "ClusterFirst", spec.get("dnsConfig")
    dns_config = config if isinstance(config, Mapping) else {}
    key = f"{_SPEC}.dnsPolicy"
    hint = f"{_SPEC}.dnsConfig.searches=[example.org], in addition to the cluster's names"
    if policy == "Default":
        because = "the pods find node 0 through the cluster's DNS, which the node's own resolver does not use"
    elif policy == "ClusterFirst" and options.host_network:
        because = "on the host network, this policy selects the node's own resolver, which cannot resolve node 0's name"
        hint = f"{key}=ClusterFirstWithHostNet, the default"
    elif policy == "None" and not (dns_config.get("nameservers") and dns_config.get("searches")):
        because = "with this policy, dnsConfig must set the nameservers and searches that resolve node 0"
        hint = f"remove the policy, or also set dnsConfig.{EXAMPLE}"
    else:
        return
    yield Diagnostic("JC4522", f"{key} would break the job", because, hint, key=key)
