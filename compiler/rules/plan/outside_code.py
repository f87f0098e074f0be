"""JC3016: an argument such as `../data`, which is outside the copy of the code that the ranks run in."""

import posixpath
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec

_COPIES = ("snapshot", "git", "rsync")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    if plan.code.kind not in _COPIES:
        return
    for word in spec.command or ():
        path = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        if path.split("/")[0] == ".." or posixpath.normpath(path).startswith("../"):
            title = f"the command contains {path!r}, which is not in the copied folder"
            because = "the ranks run in a copy of your folder, next to which there are no other files"
            hint = "pass an absolute path, or run jobc in the folder that contains this path and your script"
            yield Diagnostic("JC3016", title, because, hint, key="command", severity=Severity.WARNING)
            return
