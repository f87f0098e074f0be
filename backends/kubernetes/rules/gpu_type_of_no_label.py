"""JC4521: a GPU type that matches none of the node label's known values (gpu_types.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ....runtime.system.gpu_names import is_of_type
from ..gpu_types import DISCOVERED, PRODUCTS, label, values
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    requested, key = plan.resources.gpu_type, label(options)
    if requested is not None and not values(plan, options):
        mapped = f"backend.gpu_labels.{requested}=[VALUE] with a value that `kubectl get nodes -L {key}` shows"
        near = nearest(requested.upper(), _types(key))
        others = ((resource, PRODUCTS[label_key].split()) for resource, label_key in DISCOVERED.items())
        vendors = [resource for resource, products in others if any(is_of_type(p, requested) for p in products)]
        similar = [product for product in PRODUCTS[key].split() if near and is_of_type(product, near[0])]
        example = f", such as {similar[-1]}" if similar else ""
        because = f"the label {key} uses product names{example}, so the pods would stay Pending"
        hint = f"gpu_type={near[0]}, or {mapped}" if near else mapped
        hint = f"backend.gpu_resource={vendors[0]}" if vendors and options.gpu_label is None else hint
        yield Diagnostic("JC4521", f"gpu_type={requested} matches no known node label", because, hint, key="gpu_type")


def _types(key: str) -> list[str]:
    """Return GPU types such as H100: the words in product names that are letters followed by digits."""
    words = {part.upper() for product in PRODUCTS[key].split() for part in re.split(r"[-_]", product)}
    return sorted(word for word in words if re.fullmatch(r"(?!SXM|NVL|HBM|MI325$|MI355$)[A-Z]+\d+[A-Z]?", word))
