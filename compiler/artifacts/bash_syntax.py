"""Bash as a parser: the syntax of a script, checked and printed, without running any of it.

In   the text of a script, possibly hostile
Out  whether bash can parse it, and its commands in bash's own layout
"""

from __future__ import annotations

import shutil
import subprocess

TIMEOUT_S = 10
# -p ignores BASH_ENV and exported functions, -r and this PATH leave nothing to run, whatever bash makes of a text.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/dev/null"}


def parses(script: str) -> bool:
    """Return whether bash reads the script to its end without an error or a warning."""
    return _printed(["-pn"], script) is not None


def statements(script: str) -> list[str] | None:
    """Return the commands of a script as `declare -f` prints them, without comments; None if bash cannot parse it.

    Only a script that is complete by itself becomes the body of the function that is printed and never called, so that
    no `}` of the script can end that body.
    """
    if not parses(script):
        return None
    printed = _printed(["-pr"], f"script() {{\n{script}\n}}\ndeclare -f script\n")
    return None if printed is None else printed.split("\n")


def _printed(options: list[str], text: str) -> str | None:
    """Return what bash prints, None if it fails, warns (a here-document without an end) or does not end in time."""
    bash = shutil.which("bash")
    if bash is None:
        return None
    try:
        done = subprocess.run(
            [bash, *options],
            input=text.encode("utf-8", "replace"),
            capture_output=True,
            env=_ENVIRONMENT,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return None if done.returncode or done.stderr else done.stdout.decode("utf-8", "replace")
