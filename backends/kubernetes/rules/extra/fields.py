"""Single fields of `backend.extra`: JC2006, JC4513, JC4515, JC4522, JC4550."""

from collections.abc import Iterator, Mapping
from typing import Any

from .....compiler.api import Diagnostic, LaunchPlan, nearest
from .....compiler.emit.render import evaluate_document
from .....compiler.spec.secret_scan import is_secret_name
from .....runtime.system.reserved_variables import is_reserved
from ...._shared import kubernetes_fields as fields
from ...._shared import kubernetes_formats as forms
from ...extra_fields import KEY, KINDS, POD, VARIABLES
from ...options import KubernetesOptions
from ...pod import pod_volumes

EXAMPLE = "nameservers=[10.96.0.10] and dnsConfig.searches=[NAMESPACE.svc.cluster.local]"
_SPEC = f"{KEY}.{POD}.spec"


def validated_extra(options: KubernetesOptions) -> Mapping[str, Any]:
    """Return everything that `backend.extra` adds, or {} if Kubernetes does not know one of the fields (JC4540)."""
    return {} if [*fields.check_extra_fields(options.extra)] else options.extra


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
            title, close = f"{KEY}.{kind} is not an emitted document", (nearest(kind, kinds) or kinds)[0]
            because = f"flavor {options.flavor} emits {', '.join(kinds)}"
        elif not isinstance(tree, Mapping):
            title, close = f"{KEY}.{kind} is a document", kind
            because = "a document must be a mapping, not a single value"
        else:
            continue
        hint = f"{KEY}.{close}.metadata.annotations.NAME=VALUE"
        yield Diagnostic("JC4513", title, because, hint, key=f"{KEY}.{kind}")


def check_inconsistent_pod(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4550: a container without an image, a volume without a source, or a mount of a volume that does not exist."""
    volumes = [volume["name"] for volume in evaluate_document(pod_volumes(plan), plan, options, "")]
    for path, why in forms.find_pod_inconsistencies(extra_pod_spec(options), ("node",), volumes):
        key = ".".join((KEY, POD, "spec", *path))
        because = "the API server would reject the job"
        yield Diagnostic("JC4550", f"{key}: {why}", because, f"complete the value, or remove {key}", key=key)


def check_derived_variable(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC2006: a rank variable that jobc derives. JC4600 covers the variables that the plan sets."""
    for container, name, _ in _container_variables(options):
        if container == "node" and name not in VARIABLES and is_reserved(name):
            key = f"{KEY}.{POD}.spec.containers.node.env.{name}"
            because = "a value that you set would contradict the launcher's value"
            yield Diagnostic("JC2006", f"{key} is derived and cannot be set", because, f"remove {key}", key=key)


def check_secret_in_variable(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4515: a plain-text secret, found by its variable's name. secret_scan.py finds tokens in any text."""
    for _, name, value in _container_variables(options):
        if isinstance(value, str) and value and is_secret_name(name):
            title = f"{KEY} has a variable {name} that looks like a secret"
            because = "job.yaml and spec.yaml would show the secret in plain text to everyone who can read the run"
            hint = f"secrets.{name}=k8s:SECRET/KEY, or valueFrom: {{secretKeyRef: …}} in place of value"
            yield Diagnostic("JC4515", title, because, hint, key=f"{KEY}.{POD}", private=True)


def _container_variables(options: KubernetesOptions) -> Iterator[tuple[str, str, Any]]:
    spec = extra_pod_spec(options)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for entry in container.get("env") or ():
            yield container.get("name", ""), entry.get("name", ""), entry.get("value")


def check_unresolvable_head(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4522: DNS settings that prevent pods from resolving node 0, whose name is relative to a search domain.

    Source: Kubernetes 1.37, "DNS for Services and Pods".
    """
    spec = extra_pod_spec(options)
    if "dnsPolicy" not in spec:
        return
    policy, dns_config = spec["dnsPolicy"] or "ClusterFirst", spec.get("dnsConfig") or {}
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
