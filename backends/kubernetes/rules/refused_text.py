"""JC4504: text in a format that the API server, the scheduler or a registry would reject.

Source: Kubernetes "Object names and IDs", "Labels and selectors", "Taints and tolerations"; the image reference grammar
of github.com/distribution/reference.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ....compiler.api import Diagnostic, LaunchPlan, nearest
from ....compiler.spec.examples import IMAGE as EXAMPLE_IMAGE
from ..._shared.kubernetes_formats import DNS_LABEL, IMAGE, LABEL_KEY, LABEL_VALUE
from .. import gpu_types
from ..names import LONGEST_OBJECT, is_valid_object_name
from ..options import KubernetesOptions
from ..pod import JOB_LABEL

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class TextFormat(NamedTuple):
    """A format that a text must have. nearest: returns the most similar valid text, for the hint"""

    is_valid: Callable[[str], object]
    because: str
    nearest: Callable[[str], str]


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    texts = [
        ("queue.name", plan.queue.name, _QUEUE),
        ("queue.priority", plan.queue.priority, _OBJECT),
        ("backend.service_account", options.service_account, _OBJECT),
        ("backend.runtime_class", options.runtime_class, _OBJECT),
        ("backend.affinity", options.affinity, _NODE_LABEL),
        ("backend.anti_affinity", options.anti_affinity, _NODE_LABEL),
        ("backend.topology_spread", options.topology_spread, _NODE_LABEL),
        ("backend.gpu_label", options.gpu_label, _NODE_LABEL),
        ("backend.namespace", options.namespace, _NAMESPACE),
        ("container.workdir", plan.container.workdir, _ABSOLUTE_PATH),
        ("image", plan.container.image, _IMAGE),
    ]
    for key, text, form in texts:
        if text is not None and not form.is_valid(text):
            yield _rejection_diagnostic(key, text, form.because, f"{key}={form.nearest(text)}")
    names_by_key: Mapping[str, Sequence[str]] = {
        "hosts": plan.resources.hosts,
        "queue.nodelist": plan.queue.nodelist,
        "queue.exclude": plan.queue.exclude,
        "backend.image_pull_secrets": options.image_pull_secrets,
    }
    for key, names in names_by_key.items():
        hint = f"{key}=[{','.join(map(_nearest_name, names))}]"
        for i, name in enumerate(names):
            if not is_valid_object_name(name):
                yield _rejection_diagnostic(f"{key}.{i}", name, _OBJECT.because, hint)
    yield from _check_labels(plan)
    yield from _check_node_labels(plan, options)
    yield from _check_tolerations(options)


def _check_labels(plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name, text in plan.labels.items():
        key = f"labels.{name}"
        if name == JOB_LABEL:
            yield _rejection_diagnostic(key, name, "jobc uses this label to find its own objects", f"remove {key}")
        elif not _is_label_key(name):
            because = "a key must be [PREFIX/]NAME, where NAME has at most 63 characters, all from A-Za-z0-9-_."
            yield _rejection_diagnostic(
                key, name, because, f"'labels={{{_nearest_key(name)}: {_nearest_value(text)}}}', instead"
            )
        elif not _is_label_value(text):
            because = "a label value can have at most 63 characters, all from A-Za-z0-9-_."
            yield _rejection_diagnostic(key, text, because, f"{key}={_nearest_value(text)}")


def _check_node_labels(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """Check the values of node labels, and that no label is required to have two values."""
    gpu_label = gpu_types.gpu_label_name(options)
    because = f"the type must be a value of the node label {gpu_label}"
    for name, values in options.gpu_labels.items():
        hint = f"backend.gpu_labels.{name}=[{','.join(map(_nearest_value, values))}]"
        yield from (
            _rejection_diagnostic(f"backend.gpu_labels.{name}", v, because, hint)
            for v in values
            if not _is_label_value(v)
        )
    gpu_type = plan.resources.gpu_type
    is_label_value = gpu_type in gpu_types.gpu_label_values(plan, options) and gpu_type not in options.gpu_labels
    if gpu_type is not None and is_label_value and not _is_label_value(gpu_type):
        yield _rejection_diagnostic("gpu_type", gpu_type, because, f"gpu_type={_nearest_value(gpu_type)}")

    pairs = [text.partition("=") for text in options.node_selector]
    hint = _list_override("backend.node_selector", [f"{_nearest_key(key)}={_nearest_value(v)}" for key, _, v in pairs])
    owners = {} if gpu_type is None else {gpu_label: "gpu_type"}  # label -> the key that sets it first
    first_entries = []
    for i, (key, equals, value) in enumerate(pairs):
        if not (equals and _is_label_key(key) and _is_label_value(value)):
            because = "an entry must be a node label as KEY=VALUE"
            yield _rejection_diagnostic(f"backend.node_selector.{i}", options.node_selector[i], because, hint)
        if key not in owners:
            first_entries.append(options.node_selector[i])
        owners.setdefault(key, f"backend.node_selector.{i}")
    for i, (key, _, _) in enumerate(pairs):
        option = f"backend.node_selector.{i}"
        if owners[key] != option:
            title, because = f"{option}: {key} is already set by {owners[key]}", "a node label can only have one value"
            yield Diagnostic(
                "JC4504", title, because, _list_override("backend.node_selector", first_entries), key=option
            )


def _check_tolerations(options: KubernetesOptions) -> Iterator[Diagnostic]:
    hint = _list_override("backend.tolerations", [_nearest_taint(text) for text in options.tolerations])
    for i, text in enumerate(options.tolerations):
        taint, colon, effect = text.partition(":")
        key, _, value = taint.partition("=")
        is_valid = _is_label_key(key) and _is_label_value(value)
        if not is_valid or (colon and effect not in EFFECTS):
            because = f"a toleration must be KEY[=VALUE][:EFFECT], where EFFECT is one of {', '.join(EFFECTS)}"
            yield _rejection_diagnostic(f"backend.tolerations.{i}", text, because, hint)


def _is_label_key(text: str) -> bool:
    return bool(re.fullmatch(LABEL_KEY, text))


def _is_label_value(text: str) -> bool:
    return bool(re.fullmatch(LABEL_VALUE, text))


def _nearest_name(text: str) -> str:
    """Return the nearest valid object name. The other _nearest_ functions do the same for other kinds of text."""
    parts = (re.sub(r"[^a-z0-9]+", "-", part).strip("-") for part in text.lower()[:LONGEST_OBJECT].split("."))
    return ".".join(part for part in parts if part) or "team"


def _nearest_value(text: str) -> str:
    return re.sub(r"[^-A-Za-z0-9_.]+", "-", text)[:63].strip("-_.")


def _nearest_key(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    return (f"{_nearest_name(prefix)}/" if slash else "") + (_nearest_value(name) or "team")


def _nearest_taint(text: str) -> str:
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    valid_effect = (nearest(effect, EFFECTS) or EFFECTS)[0]
    return f"{_nearest_key(key)}{equals}{_nearest_value(value)}:{valid_effect}"


def _nearest_image(text: str) -> str:
    bare = text.rpartition("://")[2]
    name, colon, tag = bare.rpartition(":")
    tries = (bare, f"{name.lower()}{colon}{tag}", bare.lower())
    return next((candidate for candidate in tries if re.fullmatch(IMAGE, candidate)), EXAMPLE_IMAGE)


def _list_override(key: str, items: Sequence[str]) -> str:
    return f"'{key}={json.dumps(items, ensure_ascii=False)}'"


def _rejection_diagnostic(key: str, text: str, because: str, hint: str) -> Diagnostic:
    return Diagnostic("JC4504", f"{key}: {text!r} is not valid in Kubernetes", because, hint, key=key)


_OBJECT = TextFormat(is_valid_object_name, "a name may contain only a-z, 0-9, dash and dot", _nearest_name)
_QUEUE = TextFormat(
    lambda text: is_valid_object_name(text) and _is_label_value(text),
    "the name is also a label value: at most 63 characters, all from a-z, 0-9, dash and dot",
    lambda text: _nearest_value(_nearest_name(text)),
)
_NODE_LABEL = TextFormat(
    _is_label_key, "the value must be a node label, such as topology.kubernetes.io/zone", _nearest_key
)
_NAMESPACE = TextFormat(
    re.compile(DNS_LABEL).fullmatch,
    "the name may contain only a-z, 0-9 and dash",
    lambda text: _nearest_name(text).replace(".", "-"),
)
_ABSOLUTE_PATH = TextFormat(re.compile("/.*").match, "in a pod, the path must be absolute", "/{}".format)
_IMAGE = TextFormat(
    re.compile(IMAGE).fullmatch,
    "an image must be [REGISTRY/]NAME[:TAG][@DIGEST], with a lower-case name",
    _nearest_image,
)
