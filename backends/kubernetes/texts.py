"""JC4504: text of which the API server, the scheduler or a registry wants more than that it is text.

Source: Kubernetes "Object names and IDs", "Labels and selectors", "Taints and tolerations"; the image reference grammar
of github.com/distribution/reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...compiler.diagnostics import Diagnostic
from ...compiler.plan import LaunchPlan
from .._shared.kubernetes_forms import DNS_LABEL, DNS_NAME, IMAGE, LABEL_KEY, LABEL_VALUE
from . import gpu_types
from .options import KubernetesOptions
from .pod import JOB_LABEL

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def texts(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for key, text in names_of_objects(plan, options):
        if not re.fullmatch(DNS_NAME, text) or len(text) > 253:
            yield _refused(key, text, "a name is a-z, 0-9, dash and dot")
    for name in ("affinity", "anti_affinity", "topology_spread", "gpu_label"):
        key = getattr(options, name)
        if key is not None and not re.fullmatch(LABEL_KEY, key):
            yield _refused(f"backend.{name}", key, "it is a node label, such as topology.kubernetes.io/zone")
    yield from _labels(plan, options)
    yield from _taints(options)
    if options.namespace is not None and not re.fullmatch(DNS_LABEL, options.namespace):
        yield _refused("backend.namespace", options.namespace, "it is a-z, 0-9 and dash")
    workdir = plan.container.workdir
    if workdir is not None and not workdir.startswith("/"):
        yield _refused("container.workdir", workdir, "a pod's is an absolute path")
    image = plan.container.image
    if image is not None and not re.fullmatch(IMAGE, image):
        yield _refused("image", image, "it is [REGISTRY/]NAME[:TAG][@DIGEST], the name in small letters")


def names_of_objects(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[tuple[str, str]]:
    """Key and text of every name that must be one of an object or a node."""
    single = {
        "queue.name": plan.queue.name,
        "queue.priority": plan.queue.priority,
        "backend.service_account": options.service_account,
        "backend.runtime_class": options.runtime_class,
    }
    several = {
        "hosts": plan.resources.hosts,
        "queue.nodelist": plan.queue.nodelist,
        "queue.exclude": plan.queue.exclude,
        "backend.image_pull_secrets": options.image_pull_secrets,
    }
    yield from ((key, text) for key, text in single.items() if text is not None)
    yield from ((f"{key}.{i}", text) for key, found in several.items() for i, text in enumerate(found))


def _labels(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for name, text in plan.labels.items():
        if not re.fullmatch(LABEL_KEY, name) or name == JOB_LABEL:
            yield _refused(f"labels.{name}", name, "a key is [PREFIX/]NAME, the name at most 63 of A-Za-z0-9-_.")
        elif not re.fullmatch(LABEL_VALUE, text):
            yield _refused(f"labels.{name}", text, "a label's value is at most 63 of A-Za-z0-9-_.")
    mapped = ((f"backend.gpu_labels.{name}", text) for name, texts in options.gpu_labels.items() for text in texts)
    for key, text in (*mapped, *(("gpu_type", text) for text in gpu_types.values(plan, options))):
        if not re.fullmatch(LABEL_VALUE, text):
            yield _refused(key, text, f"it is the value of the node label {gpu_types.label(options)}")
    for i, selector in enumerate(options.node_selector):
        key, equals, value = selector.partition("=")
        if not (equals and re.fullmatch(LABEL_KEY, key) and re.fullmatch(LABEL_VALUE, value)):
            yield _refused(f"backend.node_selector.{i}", selector, "it is KEY=VALUE of a node label")


def _taints(options: KubernetesOptions) -> Iterator[Diagnostic]:
    for i, text in enumerate(options.tolerations):
        taint, colon, effect = text.partition(":")
        key, _, value = taint.partition("=")
        known = re.fullmatch(LABEL_KEY, key) and re.fullmatch(LABEL_VALUE, value)
        if not known or (colon and effect not in EFFECTS):
            because = f"it is KEY[=VALUE][:EFFECT], with {', '.join(EFFECTS)}"
            yield _refused(f"backend.tolerations.{i}", text, because)


def _refused(key: str, text: str, because: str) -> Diagnostic:
    return Diagnostic("JC4504", f"{key}: {text!r} is no text that Kubernetes takes", because, f"another {key}", key=key)
