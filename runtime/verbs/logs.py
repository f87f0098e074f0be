"""Print a run's output: its nodes' consoles, merged by time, or one rank's output.

Out:   bytes as they were printed; on a terminal, and from another user's run, without control sequences other than
       colors. With several nodes, `node N  | ` precedes each line, and the first failure precedes all lines.
Exit:  0; 1 if there is no such run or log, 2 for an invalid option, or 130 after Ctrl-C, which does not stop the run.
"""

from __future__ import annotations

import argparse
import re

from ..engines.artifact_location import Place, add_point_option
from ..engines.engine import Engine
from ..engines.log_files import LogRequest
from ..engines.print_logs import print_logs
from ..system.command_line import Parser
from ..system.failure import Failure


def main(argv: list[str]) -> int:
    artifact = Place.of_this_program()
    engine = artifact.watching_engine()
    options, request = _parse_arguments(argv, engine)
    if options.point is not None:
        artifact, options.run = artifact.location_of_point(options.point, options.run), ""
        engine = artifact.engine()
    run = artifact.choose_run(options.run)
    if artifact.is_sweep:
        from .sweep_points import print_logs_of_points  # only in a sweep's jobctl

        return print_logs_of_points(engine, run, request)
    return print_logs(engine, run, request)


def parser(engine: Engine) -> Parser:
    summary = "Print the output of a run: the console of its nodes, merged by time, or the output of one rank."
    words = Parser("logs", summary)
    words.add_argument("--run", metavar="ID", default="", help="ID or path of the run; default: the newest")
    words.add_argument("--node", metavar="N", help=f"the console of node N; default: {engine.default_console}")
    words.add_argument("--rank", metavar="N", help="the output of global rank N")
    words.add_argument("--tail", metavar="N", help="only the last N lines")
    text = "print new output until the run ends; Ctrl-C does not stop the run"
    words.add_argument("--follow", "-f", action="store_true", help=text)
    add_point_option(words, engine, "all points, one after another")
    return words


def _parse_arguments(argv: list[str], engine: Engine) -> tuple[argparse.Namespace, LogRequest]:
    options = parser(engine).parse_args(argv)
    if options.node and options.rank:
        raise Failure("--node and --rank cannot be used together", "jobctl logs --help", 2)
    if engine.job.settings.get("sweep") and options.follow and options.point is None:
        raise Failure("--follow needs one point of the sweep", "jobctl logs --point 0 --follow", 2)
    tail = _parse_count(options.tail, "--tail")
    if tail == 0:
        raise Failure("--tail takes a number of lines, 1 or more", "jobctl logs --help", 2)
    return options, LogRequest(
        _parse_count(options.node, "--node"), _parse_count(options.rank, "--rank"), options.follow, tail
    )


def _parse_count(text: str | None, option: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,9}", text):
        raise Failure(f"{option} takes a number, not {text}", "jobctl logs --help", 2)
    return int(text)
