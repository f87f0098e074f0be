"""Check whether a job's nodes are ready, without starting the job. Prints a table of checks, failed ones first.

Exit:  0 if the nodes are ready, 1 if a check failed, or 2 for an invalid option.
"""

from __future__ import annotations

from ..engines.artifact_location import Place
from ..engines.engine import Engine
from ..engines.starting_engine import StartingEngine, starting_engine
from ..system.command_line import Parser


def main(argv: list[str]) -> int:
    place = Place.of_this_program()
    options = parser(place.engine()).parse_args(argv)
    result = starting_engine(place).preflight(place, options)
    return result if isinstance(result, int) else result.print()


def parser(engine: Engine) -> Parser:
    summary = "Check whether the job's nodes are ready, without starting the job, and print a table of checks."
    words = Parser("preflight", summary)
    if isinstance(engine, StartingEngine):
        engine.add_preflight_options(words)
    return words
