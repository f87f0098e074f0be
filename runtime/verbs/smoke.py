"""Check whether a job's processes can communicate, by running a real collective, which takes seconds.

Exit:  0 if it worked. The run folder is temporary, and is kept only if the check fails.
"""

from __future__ import annotations

from ..engines.artifact_location import Place
from ..engines.engine import Engine
from ..engines.starting_engine import starting_engine
from ..system.command_line import Parser


def main(argv: list[str]) -> int:
    place = Place.of_this_program()
    parser(place.engine()).parse_args(argv)
    return starting_engine(place).smoke(place)


def parser(engine: Engine) -> Parser:
    summary = "Check within seconds, with a real collective, whether the job's processes can communicate."
    return Parser("smoke", summary, "The run folder of the check is temporary, and is kept only if the check fails.")
