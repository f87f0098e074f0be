"""Write backends/_shared/kubernetes_fields.json: the fields of pods, Jobs, Services, JobSets and TrainJobs, compactly.

Usage: python tools/kubernetes_fields.py
In:    the strict schemas of kubernetes-validate, VERSION, and the models of kubeflow-trainer-api (extra `dev`), which
       also cover JobSet. ENUMS lists the words that text fields accept, because both sources lack them.
Out:   definition -> field -> shape: a definition, a type, [shape of items], {"*": shape of values}, or the words `A|B`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from kubeflow_trainer_api import models

VERSION = "1.37.0"
FILE = Path(__file__).parents[1] / "backends" / "_shared" / "kubernetes_fields.json"
ROOTS = ("io.k8s.api.core.v1.PodTemplateSpec", "io.k8s.api.batch.v1.JobSpec", "io.k8s.api.core.v1.ServiceSpec")
CUSTOM = (
    models.JobsetV1alpha2JobSetSpec,
    models.TrainerV1alpha1TrainingRuntimeSpec,
    models.TrainerV1alpha1TrainJobSpec,
)
PULL, MESSAGE = "Always|IfNotPresent|Never", "File|FallbackToLogsOnError"
OPERATOR = "In|NotIn|Exists|DoesNotExist"
ENUMS = {  # Kubernetes API reference 1.37; JobSet 0.12, api/jobset/v1alpha2/jobset_types.go
    ("AppArmorProfile", "type"): "RuntimeDefault|Unconfined|Localhost",
    ("Container", "imagePullPolicy"): PULL,
    ("Container", "restartPolicy"): "Always|OnFailure|Never",
    ("Container", "terminationMessagePolicy"): MESSAGE,
    ("ContainerPort", "protocol"): "TCP|UDP|SCTP",
    ("HostPathVolumeSource", "type"): "|DirectoryOrCreate|Directory|FileOrCreate|File|Socket|CharDevice|BlockDevice",
    ("LabelSelectorRequirement", "operator"): OPERATOR,
    ("NodeSelectorRequirement", "operator"): f"{OPERATOR}|Gt|Lt",
    ("HTTPGetAction", "scheme"): "HTTP|HTTPS",
    ("PodOS", "name"): "linux|windows",
    ("PodSecurityContext", "fsGroupChangePolicy"): "Always|OnRootMismatch",
    ("PodSecurityContext", "supplementalGroupsPolicy"): "Merge|Strict",
    ("PodSpec", "dnsPolicy"): "ClusterFirst|ClusterFirstWithHostNet|Default|None",
    ("PodSpec", "preemptionPolicy"): "Never|PreemptLowerPriority",
    ("SeccompProfile", "type"): "RuntimeDefault|Unconfined|Localhost",
    ("SecurityContext", "procMount"): "Default|Unmasked",
    ("ServicePort", "protocol"): "TCP|UDP|SCTP",
    ("ServiceSpec", "externalTrafficPolicy"): "Cluster|Local",
    ("ServiceSpec", "internalTrafficPolicy"): "Cluster|Local",
    ("ServiceSpec", "ipFamilyPolicy"): "SingleStack|PreferDualStack|RequireDualStack",
    ("ServiceSpec", "sessionAffinity"): "ClientIP|None",
    ("ServiceSpec", "type"): "ClusterIP|NodePort|LoadBalancer|ExternalName",
    ("Toleration", "effect"): "NoSchedule|PreferNoSchedule|NoExecute",
    ("Toleration", "operator"): "Exists|Equal|Lt|Gt",
    ("TopologySpreadConstraint", "nodeAffinityPolicy"): "Honor|Ignore",
    ("TopologySpreadConstraint", "nodeTaintsPolicy"): "Honor|Ignore",
    ("TopologySpreadConstraint", "whenUnsatisfiable"): "DoNotSchedule|ScheduleAnyway",
    ("VolumeMount", "mountPropagation"): "None|HostToContainer|Bidirectional",
    ("JobsetV1alpha2DependsOn", "status"): "Ready|Complete",
    ("JobsetV1alpha2StartupPolicy", "startupPolicyOrder"): "AnyOrder|InOrder",
    ("JobsetV1alpha2VolumeRetentionPolicy", "whenDeleted"): "Delete|Retain",
}


def custom_definitions() -> dict[str, Any]:
    """Return class name -> JSON schema for definitions that Kubernetes itself does not have."""
    schemas: dict[str, Any] = {}
    for model in CUSTOM:
        schema = model.model_json_schema(by_alias=True)
        schemas |= {name: definition for name, definition in schema["$defs"].items() if not name.startswith("IoK8s")}
        schemas[model.__name__] = schema
    return schemas


def made() -> str:
    """Return the file's text."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{VERSION}-local-strict"
    schemas: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    entries: dict[str, Any] = {}

    custom = custom_definitions()
    by_class = {"".join(part[:1].upper() + part[1:] for part in name.split(".")): name for name in schemas}

    def define(name: str) -> str:
        short = name.rpartition(".")[2]
        if short not in entries:
            entries[short] = None  # it may contain itself
            fields = schemas[name].get("properties")
            entries[short] = {key: shape(inner) for key, inner in fields.items()} if fields else shape(schemas[name])
        return short

    def shape(schema: Mapping[str, Any]) -> Any:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return name if name in custom else define(by_class.get(name, name))
        if "anyOf" in schema:  # in a model: this type, or null
            (schema,) = (kind for kind in schema["anyOf"] if kind != {"type": "null"})
            return shape(schema)
        kinds = schema.get("type", "any")
        kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
        if kinds == ["array"]:
            return [shape(schema["items"])]
        values = schema.get("additionalProperties")
        if kinds == ["object"] and isinstance(values, dict):
            return {"*": shape(values)}
        return kinds[0] if len(kinds) == 1 and "oneOf" not in schema else "any"

    for root in ROOTS:
        define(root)
    for name, custom_schema in custom.items():
        entries[name] = {key: shape(inner) for key, inner in custom_schema.get("properties", {}).items()} or shape(
            custom_schema
        )
    for (definition, field), words in ENUMS.items():
        assert entries[definition][field] == "string", f"{definition}.{field} is not text"
        entries[definition][field] = words
    rows = (f"  {json.dumps(name)}: {json.dumps(entries[name], sort_keys=True)}" for name in sorted(entries))
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(made())
