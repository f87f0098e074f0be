"""JC4504: text in a format that the API server, the scheduler or a registry would reject.

Source: Kubernetes "Object names and IDs", "Labels and selectors", "Taints and tolerations"; the image reference grammar
of github.com/distribution/reference.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ....compiler.spec.examples import IMAGE as USUAL
from ..._shared.kubernetes_formats import DNS_LABEL, IMAGE, LABEL_KEY, LABEL_VALUE
from .. import gpu_types
from ..names import LONGEST_OBJECT, is_valid_object_name
from ..options import KubernetesOptions
from ..pod import JOB_LABEL

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    yield from _names(plan, options)
    for name in ("affinity", "anti_affinity", "topology_spread", "gpu_label"):
        key = getattr(options, name)
        if key is not None and not re.fullmatch(LABEL_KEY, key):
            because = "the value must be a node label, such as topology.kubernetes.io/zone"
            yield _rejection(f"backend.{name}", key, because, f"backend.{name}={_nearest_key(key)}")
    yield from _labels(plan)
    yield from _check_selectors(plan, options)
    yield from _taints(options)
    if options.namespace is not None and not re.fullmatch(DNS_LABEL, options.namespace):
        instead = _nearest_name(options.namespace).replace(".", "-")
        yield _rejection(
            "backend.namespace",
            options.namespace,
            "the name may contain only a-z, 0-9 and dash",
            f"backend.namespace={instead}",
        )
    workdir = plan.container.workdir
    if workdir is not None and not workdir.startswith("/"):
        yield _rejection(
            "container.workdir", workdir, "in a pod, the path must be absolute", f"container.workdir=/{workdir}"
        )
    image = plan.container.image
    if image is not None and not re.fullmatch(IMAGE, image):
        because = "an image must be [REGISTRY/]NAME[:TAG][@DIGEST], with a lower-case name"
        yield _rejection("image", image, because, f"image={_nearest_image(image)}")


def _names(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """Check every text that must be a valid name of an object or a node."""
    single: Mapping[str, str | None] = {
        "queue.name": plan.queue.name,
        "queue.priority": plan.queue.priority,
        "backend.service_account": options.service_account,
        "backend.runtime_class": options.runtime_class,
    }
    several: Mapping[str, Sequence[str]] = {
        "hosts": plan.resources.hosts,
        "queue.nodelist": plan.queue.nodelist,
        "queue.exclude": plan.queue.exclude,
        "backend.image_pull_secrets": options.image_pull_secrets,
    }
    entries = [(key, text, f"{key}={_nearest_name(text)}") for key, text in single.items() if text is not None]
    for key, names in several.items():
        hint = f"{key}=[{','.join(map(_nearest_name, names))}]"
        entries += [(f"{key}.{i}", text, hint) for i, text in enumerate(names)]
    for key, text, hint in entries:
        if not is_valid_object_name(text):
            yield _rejection(key, text, "a name may contain only a-z, 0-9, dash and dot", hint)
        elif key == "queue.name" and not _is_value(text):
            yield _rejection(
                key,
                text,
                "the text becomes a label value, which can have at most 63 characters",
                f"{key}={_nearest_value(text)}",
            )


def _labels(plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name, text in plan.labels.items():
        key = f"labels.{name}"
        if name == JOB_LABEL:
            yield _rejection(key, name, "jobc uses this label to find its own objects", f"remove {key}")
        elif not re.fullmatch(LABEL_KEY, name):
            because = "a key must be [PREFIX/]NAME, where NAME has at most 63 of the characters A-Za-z0-9-_."
            yield _rejection(key, name, because, f"'labels={{{_nearest_key(name)}: {_nearest_value(text)}}}', instead")
        elif not re.fullmatch(LABEL_VALUE, text):
            because = "a label value must have at most 63 of the characters A-Za-z0-9-_."
            yield _rejection(key, text, because, f"{key}={_nearest_value(text)}")


def _check_selectors(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """Check node label values and selectors."""
    of_label = f"the type must be a value of the node label {gpu_types.gpu_label_name(options)}"
    for name, values in options.gpu_labels.items():
        hint = f"backend.gpu_labels.{name}=[{','.join(map(_nearest_value, values))}]"
        yield from (_rejection(f"backend.gpu_labels.{name}", v, of_label, hint) for v in values if not _is_value(v))
    if plan.resources.gpu_type not in options.gpu_labels:
        values = gpu_types.gpu_label_values(plan, options)
        yield from (
            _rejection("gpu_type", v, of_label, f"gpu_type={_nearest_value(v)}") for v in values if not _is_value(v)
        )
    pairs = [text.partition("=") for text in options.node_selector]
    hint = _list_override(
        "backend.node_selector", [f"{_nearest_key(key)}={_nearest_value(value)}" for key, _, value in pairs]
    )
    for i, (key, equals, value) in enumerate(pairs):
        if not (equals and re.fullmatch(LABEL_KEY, key) and _is_value(value)):
            because = "an entry must be a node label as KEY=VALUE"
            yield _rejection(f"backend.node_selector.{i}", options.node_selector[i], because, hint)
    yield from _check_conflicting_labels(plan, options)


def _check_conflicting_labels(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """Check that no node label is required to have two values. A selector would keep only the last one."""
    owners = {gpu_types.gpu_label_name(options): "gpu_type"} if plan.resources.gpu_type is not None else {}
    once = []
    for i, text in enumerate(options.node_selector):
        key, option = text.partition("=")[0], f"backend.node_selector.{i}"
        if key not in owners:
            once.append(text)
        owners.setdefault(key, option)
    hint = _list_override("backend.node_selector", once)
    for i, text in enumerate(options.node_selector):
        key, option = text.partition("=")[0], f"backend.node_selector.{i}"
        if owners[key] != option:
            because = "a node label can only have one value"
            yield Diagnostic("JC4504", f"{option}: {key} is already set by {owners[key]}", because, hint, key=option)


def _taints(options: KubernetesOptions) -> Iterator[Diagnostic]:
    hint = _list_override("backend.tolerations", [_nearest_taint(text) for text in options.tolerations])
    for i, text in enumerate(options.tolerations):
        taint, colon, effect = text.partition(":")
        key, _, value = taint.partition("=")
        is_valid = re.fullmatch(LABEL_KEY, key) and _is_value(value)
        if not is_valid or (colon and effect not in EFFECTS):
            yield _rejection(
                f"backend.tolerations.{i}",
                text,
                f"a toleration must be KEY[=VALUE][:EFFECT], where EFFECT is one of {', '.join(EFFECTS)}",
                hint,
            )


def _is_value(text: str) -> bool:
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
    return next((candidate for candidate in tries if re.fullmatch(IMAGE, candidate)), USUAL)


def _list_override(key: str, items: Sequence[str]) -> str:
    return f"'{key}={json.dumps(items, ensure_ascii=False)}'"


def _rejection(key: str, text: str, because: str, hint: str) -> Diagnostic:
    return Diagnostic("JC4504", f"{key}: {text!r} is not valid in Kubernetes", because, hint, key=key)
