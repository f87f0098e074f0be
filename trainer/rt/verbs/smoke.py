"""Try whether the processes of a job can talk to each other: a real collective, in seconds.

Usage  jobctl smoke
Exit   0 if it worked. Its run folder is temporary, and is kept only if it failed
"""

from __future__ import annotations

import sys
from pathlib import Path

from .checks import checking_engine
from .command import Parser
from .ending_signals import call_until_ended
from .jobs import Place


def main(argv: list[str]) -> int:
    """Return the exit code."""
    return call_until_ended(smoke, argv)


def smoke(argv: list[str]) -> int:
    Parser("smoke.sh").parse_args(argv)
    place = Place(Path(sys.argv[0]).parent)
    return checking_engine(place, "smoke.sh").smoke(place)
