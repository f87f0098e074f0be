"""JC4513: a key of backend.extra that is not an emitted document, or a single value where a document is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .....compiler.diagnostics.diagnostic import Diagnostic, nearest
from .....compiler.plan.launch_plan import LaunchPlan
from ...extra import KEY, KINDS, POD
from ...options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    kinds = (POD, *KINDS[options.flavor])
    for kind, tree in options.extra.items():
        if kind not in kinds:
            close = nearest(kind, kinds) or kinds
            because = f"flavor {options.flavor} emits {', '.join(kinds)}"
            hint = f"{KEY}.{close[0]}.metadata.annotations.NAME=VALUE"
            yield Diagnostic("JC4513", f"{KEY}.{kind} is not an emitted document", because, hint, key=f"{KEY}.{kind}")
        elif not isinstance(tree, Mapping):
            title, because = f"{KEY}.{kind} is a document", "it must be a mapping, not a single value"
            hint = f"{KEY}.{kind}.metadata.annotations.NAME=VALUE"
            yield Diagnostic("JC4513", title, because, hint, key=f"{KEY}.{kind}")
