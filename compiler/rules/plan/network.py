"""The rendezvous port and the network interface: JC3011, JC3012."""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._variables import UserVariable, user_variables

_EPHEMERAL, _X11 = range(32768, 61000), range(6000, 6064)


def check_taken_port(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3011: a rendezvous port that may be in use, because it is in the kernel's ephemeral range or used by X11.

    Source: ip_local_port_range(7), Linux: 32768 to 60999 by default; X11 listens at 6000 + display.
    """
    port = spec.rendezvous.port
    if port not in _EPHEMERAL and port not in _X11:
        return
    because = "Linux uses ports 32768 to 60999 for outgoing connections, so some jobs would fail with EADDRINUSE"
    if port in _X11:
        because = "X11 forwarding listens on ports 6000 and above"
    title = f"port {port} may be taken when the job starts"
    hint = "rendezvous.port=0, which picks a free port; or rendezvous.port=29500"
    yield Diagnostic("JC3011", title, because, hint, key="rendezvous.port", severity=Severity.WARNING)


_GLOO = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_NCCL = "NCCL_SOCKET_IFNAME"
_OWN = "network.interface"


def check_interface(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3012: an interface that Gloo cannot find, or that does not connect the nodes.

    Gloo accepts only names; NCCL also accepts prefixes and exclusions. Gloo and NCCL use every interface in a list, so
    the list must not contain `lo`. NCCL's rendezvous would use `lo`, which is first in the kernel's order, and Gloo
    would send the address of `lo` to other nodes.
    Source: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, 2.13: GLOO_SOCKET_IFNAME is split at commas, each a name;
            NCCL user guide, NCCL_SOCKET_IFNAME: `^` excludes, `=` is exact; NCCL, src/os/linux.cc,
            ncclOsFindInterfaces.
    """
    nodes = plan.topology.nodes
    interface = UserVariable(_OWN, spec.network.interface or "", _OWN)
    for variable in (*user_variables(spec), interface):
        if variable.name in _GLOO and variable.value.startswith(("^", "=")):
            because = f"only NCCL interprets {variable.value[0]}; Gloo looks for an interface with this exact name"
            yield _interface_diagnostic(f"{variable.name}={variable.value} is not an interface name", because, variable)
        elif nodes > 1 and (
            "lo" in variable.value.split(",")
            if variable.name in (*_GLOO, _OWN)
            else variable.name == _NCCL and _nccl_uses_loopback(variable.value)
        ):
            because = "this selects lo (the loopback interface), so ranks on other nodes cannot connect"
            title = f"{variable.name}={variable.value} with {nodes} nodes"
            yield _interface_diagnostic(title, because, variable, judgment=True)


def _nccl_uses_loopback(value: str) -> bool:
    """Return whether NCCL uses lo. An exclusion such as `^docker0` selects lo; NCCL ignores one-character values."""
    names = [name for name in value.removeprefix("^").removeprefix("=").split(",") if name]
    is_exact = value.removeprefix("^").startswith("=")
    matches = "lo" in names if is_exact else any("lo".startswith(name) for name in names)
    return len(value) > 1 and matches is not value.startswith("^")


def _interface_diagnostic(title: str, because: str, variable: UserVariable, judgment: bool = False) -> Diagnostic:
    """Return JC3012. judgment: the user may know that all nodes are one machine, or how the shell expands a value."""
    without = f"{_OWN}=null" if variable.key == _OWN else variable.removal_hint()
    hint = f"{without}, so that each node finds its interface to node 0; or network.interface=eth0"
    if variable.is_set_by_command:
        hint, judgment = f"{without}, so that each node finds its interface to node 0", True
    return Diagnostic("JC3012", title, because, hint, key=variable.key, judgment=judgment)
