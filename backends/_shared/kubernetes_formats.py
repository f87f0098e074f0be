"""JC4550: values added to a pod that the API server would reject, although the fields exist.

In:  a definition in kubernetes_fields.json with one of its fields and that field's value; or a pod spec.
Out: the reasons why Kubernetes would reject that value or pod.
Source: Kubernetes 1.37 API reference; validation as observed on v1.36.2 ("must be one of", RFC 1123, quantities).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_NAME = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_KEY = rf"({DNS_NAME}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
QUANTITY = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
_PART = r"[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:))(:[0-9]+)?"
IMAGE = rf"({_HOST}/)?{_PART}(/{_PART})*(:[\w][\w.-]{{0,127}})?(@sha256:[0-9a-f]{{64}})?"  # distribution/reference
STANDARD = r"cpu|memory|ephemeral-storage|hugepages-\S+"  # resources without a domain

Form = Callable[[Any], str]  # value -> reason why it is invalid, or ""


def _make_text_format(pattern: str, words: str) -> Form:
    return lambda value: "" if re.fullmatch(pattern, str(value)) else f"{str(value)!r} is not a valid {words}"


def _make_number_format(least: int, most: int) -> Form:
    return lambda value: (
        "" if not _is_number(value) or least <= value <= most else f"{value} is out of range: must be {least} to {most}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _reason_against_labels(value: Any) -> str:
    pairs = value.items() if isinstance(value, Mapping) else ()
    whys = (
        _make_text_format(LABEL_KEY, "key of a label")(key) or _make_text_format(LABEL_VALUE, "value of a label")(v)
        for key, v in pairs
    )
    return next((why for why in whys if why), "")


def _reason_against_resources(value: Any) -> str:
    for name, amount in value.items() if isinstance(value, Mapping) else ():
        if "/" not in name and not re.fullmatch(STANDARD, name):
            return f"{name!r} is not a resource: device plugins use a domain, such as nvidia.com/gpu"
        if name in ("nvidia.com/gpus", "amd.com/gpus"):
            return f"no node has {name!r}, so the pods would stay Pending: use {name[:-1]}"
        if why := _QUANTITY(amount):
            return why
    return ""


_QUANTITY = _make_text_format(QUANTITY, "quantity such as 64Gi or 500m")
_BY_FORM: tuple[tuple[Form, str], ...] = (
    (_reason_against_labels, "ObjectMeta.labels LabelSelector.matchLabels PodSpec.nodeSelector"),
    (_make_number_format(0, 2**31 - 1), "JobSpec.activeDeadlineSeconds JobSpec.ttlSecondsAfterFinished"),
    (
        _make_number_format(1, 2**31 - 1),
        "PodSpec.activeDeadlineSeconds TopologySpreadConstraint.maxSkew TopologySpreadConstraint.minDomains",
    ),
    (_make_number_format(1, 100), "WeightedPodAffinityTerm.weight PreferredSchedulingTerm.weight"),
    (_make_number_format(1, 65535), "ContainerPort.containerPort ContainerPort.hostPort ServicePort.port"),
    (_QUANTITY, "EmptyDirVolumeSource.sizeLimit"),
    (_reason_against_resources, "ResourceRequirements.limits ResourceRequirements.requests"),
    (
        _make_text_format(rf"(?!.{{64}}){DNS_LABEL}", "name of at most 63 characters from a-z, 0-9 and dash"),
        "Container.name Volume.name",
    ),
    (
        _make_text_format(DNS_NAME, "name that contains only a-z, 0-9, dash and dot"),
        "ConfigMapEnvSource.name ConfigMapKeySelector.name ConfigMapProjection.name ConfigMapVolumeSource.name "
        "LocalObjectReference.name PersistentVolumeClaimVolumeSource.claimName PodSpec.nodeName "
        "PodSpec.priorityClassName PodSpec.runtimeClassName PodSpec.schedulerName PodSpec.serviceAccountName "
        "SecretEnvSource.name SecretKeySelector.name SecretProjection.name SecretVolumeSource.secretName",
    ),
    (
        _make_text_format(LABEL_KEY, "key of a label"),
        "LabelSelectorRequirement.key NodeSelectorRequirement.key PodAffinityTerm.topologyKey "
        "TopologySpreadConstraint.topologyKey",
    ),
    (_make_text_format(IMAGE, "image [REGISTRY/]NAME[:TAG][@DIGEST], with a lower-case name"), "Container.image"),
    (_make_text_format(LABEL_KEY, "key of a taint"), "Toleration.key"),
    (_make_text_format(LABEL_VALUE, "value of a taint"), "Toleration.value"),
    (
        _make_text_format(r"(Memory|HugePages(-\S+)?)?", "medium: Memory, HugePages or nothing"),
        "EmptyDirVolumeSource.medium",
    ),
    (_make_text_format(r"[ -<>-~]+", "variable name of printable characters without ="), "EnvVar.name"),
    (_make_text_format(r"[^:]+", "path without a colon"), "VolumeMount.mountPath"),
)
FORMS: Mapping[str, Form] = {field: form for form, fields in _BY_FORM for field in fields.split()}


def reason_for_rejection(definition: str, field: str, value: Any) -> str:
    form = FORMS.get(f"{definition}.{field}")
    return form(value) if form is not None and value is not None else ""


Unmatched = Iterator[tuple[tuple[str, ...], str]]  # path and reason


def find_pod_inconsistencies(spec: Mapping[str, Any], containers: Sequence[str], volumes: Sequence[str]) -> Unmatched:
    """Yield the inconsistencies in a pod spec, which must be in the API's form.

    containers, volumes: names that already exist
    """
    added = [volume for volume in spec.get("volumes") or () if volume["name"] not in volumes]
    for volume in added:
        if len(volume) < 2:
            yield ("volumes", volume["name"]), "a volume needs a source, such as emptyDir: {}"
    volume_names = {*volumes, *(volume["name"] for volume in added)}
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            if not container.get("name"):
                yield (kind,), "a container needs a name"
                continue
            key_path = (kind, container["name"])
            if container.get("name") not in containers and not container.get("image"):
                yield key_path, "a container needs an image"
            for mount in container.get("volumeMounts") or ():
                if mount.get("name") not in volume_names:
                    yield (*key_path, "volumeMounts"), f"the pod has no volume {mount.get('name')!r}"
