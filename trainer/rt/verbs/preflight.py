"""Check whether the nodes of a job are ready, without starting it: a table of checks, failed ones first.

Usage  jobctl preflight
       and the options of the backend
Exit   0 if the nodes are ready; 1 if a check failed; 2 for an invalid option
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
    return call_until_ended(preflight, argv)


def preflight(argv: list[str]) -> int:
    place = Place(Path(sys.argv[0]).parent)
    engine = checking_engine(place, "preflight.sh")
    parser = Parser("preflight.sh")
    engine.add_preflight_options(parser)
    result = engine.preflight(place, parser.parse_args(argv))
    return result if isinstance(result, int) else result.print()
