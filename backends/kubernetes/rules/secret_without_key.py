"""JC4506: a secret reference that does not name a key of a Kubernetes Secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions
from ._names import is_name


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for name, secret in plan.secrets.items():
        object_, _, key = secret.ref.partition("/")
        if secret.kind == "k8s" and not (is_name(object_) and re.fullmatch(r"[-\w.]+", key)):
            title = f"secrets.{name} does not name a key in a Secret"
            because = "it must be k8s:SECRET/KEY; a Secret's name may contain only a-z, 0-9, '-' and '.'"
            hint = (
                f"secrets.{name}=k8s:my-secret/token, from `kubectl create secret generic my-secret --from-file=token`"
            )
            yield Diagnostic("JC4506", title, because, hint, key=f"secrets.{name}")
