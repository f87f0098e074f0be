"""JC3003: a password or token in the command's arguments or in a label, where all users of a node can read it."""

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.secret_scan import describe_secret_in_command, looks_like_token
from ._shell import shell_text


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    in_shell = re.sub("[\"']", "", shell_text(spec.command)).split()
    if shown := describe_secret_in_command((*(spec.command or ()), *in_shell)):
        because = (
            "`ps` shows command-line arguments to all users of the node, and launch.sh contains them in plain text"
        )
        hint = "secrets.NAME=env:NAME, and read the environment variable in the program"
        yield Diagnostic(
            "JC3003", f"the command contains {shown}", because, hint, key="command", private=True, judgment=True
        )
    for name, value in spec.labels.items():
        if looks_like_token(value):
            because = "everyone who can list jobs can read labels"
            hint = f"~labels.{name}; pass a secret with secrets.NAME=env:NAME"
            title, key = f"labels.{name} looks like a secret", f"labels.{name}"
            yield Diagnostic("JC3003", title, because, hint, key=key, private=True, judgment=True)
