"""JC3013: `bash -c 'python train.py --note "abc'`: a text that bash cannot read, for a quote or a bracket is open.

Source bash 5.2, manual: `-n` reads commands and executes none, `-p` reads no file first.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._shell import text_of_bash

READS = ("bash", "-pn", "-O", "extglob")  # which a line of the text may switch on


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    text = text_of_bash(spec.command)
    if text and (said := _refusal(text)):
        title = "bash cannot read the text of the command"
        yield Diagnostic("JC3013", title, f"bash says: {said}", "close what is open, or quote it", key="command")


def _refusal(text: str) -> str:
    """What bash says, "" when it reads the text to its end, or is not there."""
    try:
        sent, said_in = text.encode(errors="surrogateescape"), {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(READS, input=sent, capture_output=True, env=said_in, check=False)
    except FileNotFoundError:
        return ""
    said = re.search(r"line \d+: .*", done.stderr.decode(errors="replace"))
    return said[0] if done.returncode and said else ""
