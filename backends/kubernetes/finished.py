"""The pod as it will be written, with `backend.extra` in it, for the rules on both together (rules/finished/)."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ...compiler.plan import LaunchPlan
from ...compiler.render import Omit
from .names import object_name
from .options import KubernetesOptions
from .pod import pod_template


def pod_spec(plan: LaunchPlan, options: KubernetesOptions) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = _plain(pod_template(plan, options, object_name(plan, options)), plan, options)["spec"]
    return spec


def _plain(tree: Any, plan: LaunchPlan, options: KubernetesOptions) -> Any:
    """The document without its functions."""
    if callable(tree):
        return _plain(tree(SimpleNamespace(plan=plan, options=options)), plan, options)
    if isinstance(tree, Mapping):
        made = {key: _plain(inner, plan, options) for key, inner in tree.items()}
        return {key: inner for key, inner in made.items() if inner is not Omit}
    return [_plain(item, plan, options) for item in tree] if isinstance(tree, (list, tuple)) else tree
