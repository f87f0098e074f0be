"""Find hosts on the command line that the job would not use because of a value set elsewhere.

In:  the spec, and the position where each value was set.
Out: JC2021 if `nodes` is set elsewhere and is too small; JC2022 if no backend was chosen.
"""

from collections.abc import Iterator, Mapping

from ..diagnostics.diagnostic import Diagnostic
from ..diagnostics.origin import COMMAND_LINE
from ..emit.source_map import SpecValue
from ..plan.derive import usable_hosts
from ..spec.job_spec import JobSpec

CONFIG = "conf/config.yaml"  # the default is one node, so the user asked for the first host


def check(spec: JobSpec, values: Mapping[str, SpecValue]) -> Iterator[Diagnostic]:
    if not _is_typed(values, "hosts"):
        return
    if values["backend"].is_set_only_by_jobc and values["backend"].value == "local":
        title = "hosts are given, but no backend that uses them"
        because = "the default is backend=local, which starts the job on this machine"
        yield Diagnostic("JC2022", title, because, "backend=ssh, backend=pdsh or backend=slurm", key="hosts")
        return
    hosts = usable_hosts(spec, spec.hosts or ())
    origin = values["nodes"].origin
    if len(hosts) <= spec.nodes or origin is None or origin.root == COMMAND_LINE or origin.path == CONFIG:
        return
    used = "the first" if spec.nodes == 1 else f"the first {spec.nodes}"
    yield Diagnostic(
        "JC2021",
        f"{len(hosts)} hosts are given, but nodes={spec.nodes} uses only {used}",
        f"nodes={spec.nodes} comes from {origin}; the list of hosts does not change this number",
        f"nodes={len(hosts)} for all hosts; nodes={spec.nodes} for {used}",
        key="hosts",
    )


def _is_typed(values: Mapping[str, SpecValue], key: str) -> bool:
    origin = values[key].origin
    return origin is not None and origin.root == COMMAND_LINE
