"""Find hosts that were typed on the command line although the backend, local by default, does not use them.

In:  the position where each value was set.
Out: JC2022 if hosts were typed but no backend was chosen.
"""

from collections.abc import Iterator, Mapping

from ..diagnostics.diagnostic import Diagnostic
from ..diagnostics.origin import COMMAND_LINE
from ..emit.source_map import SpecValue


def check(values: Mapping[str, SpecValue]) -> Iterator[Diagnostic]:
    backend = values["backend"]
    if is_typed(values, "hosts") and backend.is_set_only_by_jobc and backend.value == "local":
        title = "hosts are set, but the backend does not use them"
        because = "the default is backend=local, which starts the job on this machine"
        yield Diagnostic("JC2022", title, because, "backend=ssh, backend=pdsh or backend=slurm", key="hosts")


def is_typed(values: Mapping[str, SpecValue], key: str) -> bool:
    """Return whether the value was set on the command line."""
    origin = values[key].origin
    return origin is not None and origin.root == COMMAND_LINE
