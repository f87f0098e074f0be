"""JC2005: fewer hosts than nodes, although each node needs a host of its own.

Source: DeepSpeed 0.19.5, launcher/runner.py: if `--num_nodes` exceeds the number of hosts, DeepSpeed uses all hosts.
"""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import usable_hosts
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.hosts is None or len(usable := usable_hosts(spec, spec.hosts)) >= spec.nodes:
        return
    exclusion_note = (
        f", without the {len(spec.hosts) - len(usable)} of queue.exclude" if len(usable) < len(spec.hosts) else ""
    )
    yield Diagnostic(
        "JC2005",
        f"{len(usable)} host{'s' * (len(usable) != 1)} for {spec.nodes} nodes",
        f"each node needs its own host{exclusion_note}",
        f"nodes={len(usable)}, or list more hosts" if usable else "list other hosts, or queue.exclude=null",
        key="hosts",
    )
