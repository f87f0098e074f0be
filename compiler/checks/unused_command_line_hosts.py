"""Find hosts on the command line that the job does not use.

In:  the spec, and the position where each value was set.
Out: note JC2021 if `nodes` is on the command line as well and is smaller; JC2022 if no backend was chosen.
"""

from collections.abc import Iterator, Mapping

from ..diagnostics.diagnostic import Diagnostic, Severity
from ..diagnostics.origin import COMMAND_LINE
from ..emit.source_map import SpecValue
from ..plan.derive import usable_hosts
from ..spec.job_spec import JobSpec


def check(spec: JobSpec, values: Mapping[str, SpecValue], is_honoured: bool) -> Iterator[Diagnostic]:
    """Yield the diagnostics. is_honoured: whether the backend uses `hosts`"""
    if not is_typed(values, "hosts"):
        return
    if values["backend"].is_set_only_by_jobc and values["backend"].value == "local":
        title = "hosts are given, but no backend that uses them"
        because = "the default is backend=local, which starts the job on this machine"
        yield Diagnostic("JC2022", title, because, "backend=ssh, backend=pdsh or backend=slurm", key="hosts")
        return
    hosts = usable_hosts(spec, spec.hosts or ())
    if len(hosts) <= spec.nodes or not is_typed(values, "nodes") or not is_honoured:
        return
    used = "the first" if spec.nodes == 1 else f"the first {spec.nodes}"
    title = f"{len(hosts)} hosts are given, but nodes={spec.nodes} uses only {used}"
    because = "nodes on the command line overrides the number of hosts"
    hint = f"nodes={len(hosts)} for all hosts"
    yield Diagnostic("JC2021", title, because, hint, key="hosts", severity=Severity.NOTE)


def is_typed(values: Mapping[str, SpecValue], key: str) -> bool:
    """Return whether the value was set on the command line."""
    origin = values[key].origin
    return origin is not None and origin.root == COMMAND_LINE
