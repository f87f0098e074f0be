"""JC4540 and, with kubernetes_formats.py, JC4550: fields added by the user that the API server would reject.

In:  backend.extra of kubernetes, or a pod_config of skypilot; kubernetes_fields.json, which tools/kubernetes_fields.py
     generates from the schemas of Kubernetes 1.37 and the models of JobSet and TrainJob.
Out: a Diagnostic for each unknown field, and for each value that has the wrong type or is not in the field's enum.
     to_api_form() returns the tree in the API's form.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...compiler.api import Diagnostic, Omit, nearest
from ...compiler.emit.extra_entries import extra_name_leaf
from . import kubernetes_formats as forms

At = tuple[str, ...]

SPECS: Mapping[str, str] = {
    "Job": "JobSpec",
    "Service": "ServiceSpec",
    "JobSet": "JobsetV1alpha2JobSetSpec",
    "TrainingRuntime": "TrainerV1alpha1TrainingRuntimeSpec",
    "TrainJob": "TrainerV1alpha1TrainJobSpec",
}
CLOSED = {"*": None}  # no fields other than those listed
KINDS: Mapping[str, Any] = {
    "Pod": "PodTemplateSpec",
    **{
        kind: {**CLOSED, "apiVersion": "string", "kind": "string", "metadata": "ObjectMeta", "spec": spec}
        for kind, spec in SPECS.items()
    },
}
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str, bool, int),  # to_api_form() converts them to text; not float, because 1.10 is already 1.1
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_REFUSED = "the API server validates strictly and would reject the job"


def check_extra_fields(extra: Mapping[str, Any]) -> Iterator[Diagnostic]:
    for kind, shape in KINDS.items():
        if isinstance(tree := extra.get(kind), Mapping):
            yield from _check_value(tree, shape, ("backend", "extra", kind))


def check_pod(tree: Any, key_path: At) -> Iterator[Diagnostic]:
    """Check the fields of a pod that another program sends to Kubernetes.

    key_path: path of the key that contains the pod.
    """
    yield from _check_value(tree, "PodTemplateSpec", key_path)


@cache
def known_kubernetes_fields() -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads(Path(__file__).with_name("kubernetes_fields.json").read_text(encoding="utf-8"))
    return read


def _check_value(value: Any, shape: Any, key_path: At) -> Iterator[Diagnostic]:
    definition = shape if isinstance(shape, str) else ""
    if definition in known_kubernetes_fields():
        shape = known_kubernetes_fields()[definition]
        shape = {**CLOSED, **shape} if isinstance(shape, dict) else shape
    if value is None or shape == "any":  # null removes the field
        return
    if isinstance(shape, list):
        yield from _check_list(value, shape[0], key_path)
    elif isinstance(shape, dict):
        yield from _check_mapping(value, shape, key_path, definition)
    elif "|" in shape:
        words = [*filter(None, shape.split("|"))]
        if value not in shape.split("|"):
            near = [*nearest(str(value), words), *words][0]
            yield _rejection_diagnostic(
                key_path, f"{value!r} is invalid: must be one of {', '.join(words)}", f"={near}"
            )
    elif shape in TYPES and not _has_json_type(value, shape):
        is_number = shape == "string" and isinstance(value, float)
        instead = f'in a YAML file, {key_path[-1]}: "{value}"' if is_number else ""
        yield _rejection_diagnostic(key_path, f"{value!r} is not a {shape}", instead)


def _has_json_type(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind in ("boolean", "string") or not isinstance(value, bool))


def _check_list(value: Any, shape: Any, key_path: At) -> Iterator[Diagnostic]:
    """Check a list, or a mapping from names to list items."""
    if isinstance(value, Mapping) and _is_named(shape):
        for name, inner in value.items():
            yield from _check_format(shape, "name", name, key_path)
            yield from _check_value(inner, shape, (*key_path, name))
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            yield from _check_value(inner, shape, (*key_path, str(i)))
    else:
        yield _rejection_diagnostic(key_path, "the value must be a list", "=[…]")


def _is_named(shape: Any) -> bool:
    definition = known_kubernetes_fields().get(shape) if isinstance(shape, str) else None
    return isinstance(definition, dict) and "name" in definition


def is_list_in_schema(key_path: At) -> bool:
    """Return whether a mapping stands for a list of named items.

    key_path: path below `extra`, starting with the kind.
    """
    shape: Any = KINDS
    for part in key_path:
        shape = shape[0] if isinstance(shape, list) else shape.get(part, shape.get("*"))
        while isinstance(shape, str) and shape in known_kubernetes_fields():
            shape = known_kubernetes_fields()[shape]
        if not isinstance(shape, (list, dict)):
            return False
    return isinstance(shape, list)


def to_api_form(kind: str, tree: Any) -> Any:
    """Convert a kind's tree, whose leaves may be functions of the views, to the API's form.

    A mapping of named items, such as `{A: {value: 1}}`, becomes a list. A number becomes text if the API requires text.
    """
    return _to_api_form(tree, KINDS.get(kind))


def _to_api_form(tree: Any, shape: Any) -> Any:
    if callable(tree):
        return lambda views: _to_api_form(tree(views), shape)
    if isinstance(shape, str) and shape in known_kubernetes_fields():
        shape = known_kubernetes_fields()[shape]
    if isinstance(shape, list):
        if isinstance(tree, Mapping):
            tree = [_named_item(name, item) for name, item in tree.items() if item not in (None, Omit)]
        return [_to_api_form(item, shape[0]) for item in tree] if isinstance(tree, (list, tuple)) else tree
    if isinstance(shape, dict) and isinstance(tree, Mapping):
        return {key: _to_api_form(value, shape.get(key, shape.get("*"))) for key, value in tree.items()}
    return str(tree).lower() if shape == "string" and isinstance(tree, (bool, int)) else tree


def _named_item(name: str, item: Any) -> Any:
    if callable(item):
        return lambda views: {"name": name, **item(views)}
    return {"name": extra_name_leaf(name, item), **item}


def _check_format(definition: str, field: str, value: Any, key_path: At) -> Iterator[Diagnostic]:
    """Yield JC4550 if a field's value is malformed."""
    if why := forms.reason_for_rejection(definition, field, value):
        key = ".".join(key_path)
        yield Diagnostic("JC4550", f"{key}: {why}", _REFUSED, f"remove {key}", key=key)


def _check_mapping(value: Any, shape: Mapping[str, Any], key_path: At, definition: str) -> Iterator[Diagnostic]:
    if not isinstance(value, Mapping):
        name = next((name for name in shape if name != "*"), "NAME")
        yield _rejection_diagnostic(key_path, "the value must be a mapping", f".{name}=…")
        return
    for name, inner in value.items():
        expected = shape.get(name, shape["*"]) if "*" in shape else None
        if expected is None:
            near = nearest(name, [field for field in shape if field != "*"])
            path = ".".join(key_path)
            key = f"{path}.{name}"
            hint = f"did you mean {path}.{near[0]}?" if near else f"remove {key}"
            yield Diagnostic("JC4540", f"{key}: {key_path[-1]} has no field {name}", _REFUSED, hint, key=key)
        else:
            diagnostics = [*_check_value(inner, expected, (*key_path, name))]
            yield from diagnostics or _check_format(definition, name, inner, (*key_path, name))


def _rejection_diagnostic(key_path: At, why: str, hint: str) -> Diagnostic:
    key = ".".join(key_path)
    instead = f"{key}{hint}" if hint[:1] in ("=", ".") else hint or f"remove {key}"
    if hint.startswith("=") and any(part.isdigit() for part in key_path):  # an override cannot address list items
        instead = f"{key_path[-1]}: {hint[1:]}"
    return Diagnostic("JC4540", f"{key}: {why}", _REFUSED, instead, key=key)
