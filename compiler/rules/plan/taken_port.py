"""JC3011: a rendezvous port that may be in use, because it is in the kernel's ephemeral range or used by X11.

Source: ip_local_port_range(7), Linux: 32768 to 60999 by default; X11 listens at 6000 + display.
"""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec

_EPHEMERAL, _X11 = range(32768, 61000), range(6000, 6064)


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    port = spec.rendezvous.port
    if port not in _EPHEMERAL and port not in _X11:
        return
    because = "Linux uses ports 32768 to 60999 for outgoing connections, so some starts would fail with EADDRINUSE"
    if port in _X11:
        because = "X11 forwarding listens on ports 6000 and above"
    title = f"port {port} may be taken when the job starts"
    hint = "rendezvous.port=0, which picks a free port; or rendezvous.port=29500"
    yield Diagnostic("JC3011", title, because, hint, key="rendezvous.port", severity=Severity.WARNING)
