"""The finished pod, with `backend.extra` merged in, for the rules that check the result (rules/finished/)."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ...compiler.emit.render import Omit, Whole
from ...compiler.plan.launch_plan import LaunchPlan
from .names import digest
from .options import KubernetesOptions
from .pod import pod_template


def pod_spec(plan: LaunchPlan, options: KubernetesOptions) -> Mapping[str, Any]:
    views = SimpleNamespace(plan=plan, options=options, whole=Whole(digest(plan, options)))
    spec: Mapping[str, Any] = _plain(pod_template(plan, options), views)["spec"]
    return spec


def _plain(tree: Any, views: SimpleNamespace) -> Any:
    """Return the document with its functions evaluated."""
    if callable(tree):
        return _plain(tree(views), views)
    if isinstance(tree, Mapping):
        evaluated = {key: _plain(inner, views) for key, inner in tree.items()}
        return {key: inner for key, inner in evaluated.items() if inner is not Omit}
    return [_plain(item, views) for item in tree] if isinstance(tree, (list, tuple)) else tree
