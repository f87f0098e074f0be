"""Use bash as a parser: check a script's syntax, or print its commands, without running any of it.

In:  a script's text, which may be hostile.
Out: whether bash can parse it, bash's error message if it cannot, and the script's commands as bash formats them.
"""

import shutil
import subprocess
from functools import cache

TIMEOUT_S = 10
# -p ignores BASH_ENV and exported functions; with -r and this PATH, no command can run.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/dev/null"}


def is_valid_bash(script: str) -> bool | None:
    """Return whether bash parses the whole script without an error or a warning, or None if bash does not respond."""
    done = _run_bash(["-pn"], script)
    return None if done is None else not (done.returncode or done.stderr)


@cache
def syntax_error(script: str) -> str | None:
    """Return bash's first error message about the script, such as `line 2: …`, or None if bash does not respond.

    Return "" if the script parses, or if this machine has no bash.
    """
    done = _run_bash(["-pn", "-O", "extglob"], script)  # extglob: the script may enable it
    if done is None:
        return None if shutil.which("bash") else ""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return next((f"line {message}" for _, found, message in (line.partition(": line ") for line in lines) if found), "")


def normalized_statements(script: str) -> list[str] | None:
    """Return a script's commands as `declare -f` prints them, without comments, or None if bash cannot parse it.

    The script becomes the body of a function that is printed and never called. The script must be syntactically
    complete, so that no `}` in it can end that body.
    """
    if not is_valid_bash(script):
        return None
    done = _run_bash(["-pr"], f"script() {{\n{script}\n}}\ndeclare -f script\n")
    if done is None or done.returncode or done.stderr:
        return None
    return done.stdout.decode("utf-8", "replace").split("\n")


def _run_bash(options: list[str], text: str) -> subprocess.CompletedProcess[bytes] | None:
    """Run bash; return None if this machine has no bash, or if it exceeds the timeout."""
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
