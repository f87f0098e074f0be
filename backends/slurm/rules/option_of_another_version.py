"""JC4340: an option that the site's sbatch does not know; it ends there, and nothing of the job is queued."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, alternatives
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared import sbatch_options
from ..options import SlurmOptions
from ..own_options import OURS
from ..spelling import LONG


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    site = options.version
    for name in options.extra:
        key, title = f"backend.extra.{name}", f"Slurm {site} has no option --{name}"
        since, gone = sbatch_options.SINCE.get(name, site), sbatch_options.GONE.get(name, "99.99")
        if not re.fullmatch(LONG, name):
            continue  # JC4303
        if not sbatch_options.is_known(name):
            yield _unknown(key, title, sbatch_options.meant(name))
        elif not since <= site < gone:
            because = f"sbatch has it since Slurm {since}" if site < since else f"sbatch had it before Slurm {gone}"
            hint = f"remove {key}" + (
                f", or backend.version={since} if the site has that version" if site < since else ""
            )
            yield Diagnostic("JC4340", title, because, hint, key=key)


def _unknown(key: str, title: str, meant: list[str]) -> Diagnostic:
    """Report an unknown option: an error if a known one is similar, else a warning, because a plugin may provide it."""
    because = "no sbatch from 22.05 to 25.11 has it, nor does Pyxis"
    if not meant:
        hint = f"remove {key}, unless a SPANK plugin of the site provides it"
        return Diagnostic("JC4340", title, because, hint, key=key, severity=Severity.WARNING)
    if owner := OURS.get(meant[0]):
        because = f"{because}; --{meant[0]} is similar"
        return Diagnostic("JC4340", title, because, f"remove it, and set {owner}", key=key)
    hint = f"did you mean {alternatives(f'backend.extra.{name}' for name in meant)}?"
    return Diagnostic("JC4340", title, because, hint, key=key)
