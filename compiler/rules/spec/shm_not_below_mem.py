"""JC2017: shared memory that is not smaller than the job's memory, although it counts toward that memory. JC4508 checks
pods.

Source: the Linux kernel's documentation, Control Group v2.
"""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.shm and spec.mem and spec.shm >= spec.mem and spec.container.kind != "pod":
        because = "/dev/shm counts toward the job's memory, and the job is killed when that memory is full"
        hint = f"mem={format_bytes(2 * spec.shm)}"
        title, level = (
            f"shm={format_bytes(spec.shm)} is not smaller than mem={format_bytes(spec.mem)}",
            Severity.WARNING,
        )
        yield Diagnostic("JC2017", title, because, hint, key="shm", severity=level)
