"""Use bash as a parser: check and print a script's syntax without running any of it.

In:  a script's text, possibly hostile.
Out: whether bash can parse it or why not, and its commands in bash's own layout.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

TIMEOUT_S = 10
# -p ignores BASH_ENV and exported functions; -r and this PATH leave no command that could run.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/dev/null"}


def parses(script: str) -> bool:
    """Return whether bash parses the whole script without an error or a warning."""
    return _printed(["-pn"], script) is not None


@cache
def syntax_error(script: str) -> str:
    """Return bash's first message about the script, `line 2: …`; "" if it parses, or if this machine has no bash."""
    done = _run(["-pn", "-O", "extglob"], script)  # extglob: the script may switch it on
    lines = done.stderr.decode("utf-8", "replace").splitlines() if done else []
    return next((f"line {message}" for _, found, message in (line.partition(": line ") for line in lines) if found), "")


def statements(script: str) -> list[str] | None:
    """Return a script's commands as `declare -f` prints them, without comments; None if bash cannot parse it.

    The script becomes the body of a function that is printed and never called. The script must be syntactically
    complete, so that no `}` in it can end that body.
    """
    if not parses(script):
        return None
    printed = _printed(["-pr"], f"script() {{\n{script}\n}}\ndeclare -f script\n")
    return None if printed is None else printed.split("\n")


def _printed(options: list[str], text: str) -> str | None:
    """Return what bash prints, or None if it fails, warns (unterminated here-document) or exceeds the timeout."""
    done = _run(options, text)
    return None if done is None or done.returncode or done.stderr else done.stdout.decode("utf-8", "replace")


def _run(options: list[str], text: str) -> subprocess.CompletedProcess[bytes] | None:
    bash = shutil.which("bash")
    if bash is None:
        return None
    words, script = [bash, *options], text.encode("utf-8", "replace")
    try:
        return subprocess.run(
            words, input=script, capture_output=True, env=_ENVIRONMENT, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
