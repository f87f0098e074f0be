"""Open a shell, or run one command, in a job's environment and working directory.

Exit:  the command's exit code, or 2 for an invalid option.
"""

from __future__ import annotations

from ..engines.artifact_location import Place, add_point_option, require_own_run
from ..engines.engine import Engine
from ..engines.starting_engine import StartingEngine, exec_shell
from ..system.command_line import Parser
from ..system.failure import Failure
from ..system.values import number_or_none


def main(argv: list[str]) -> int:
    words, command = argv, []
    if "--" in argv:
        first = argv.index("--")
        words, command = argv[:first], argv[first + 1 :]
    place = Place.of_this_program()
    engine = place.engine()
    options = parser(engine).parse_args(words)
    if place.is_sweep:  # a sweep's run has no nodes
        place, options.run = place.location_of_point(options.point or "0", options.run), ""
        engine = place.engine()
    if options.run:  # the shell runs programs from the run's folder
        require_own_run(place.choose_run(options.run), "open a shell in it")
    rank = options.node or options.named_node
    if not isinstance(engine, StartingEngine):
        exec_shell(place, options.run, _parse_node_number(rank, place.job.nodes), command)
    node = _parse_node_number(rank, engine.shell_nodes(place, options.run))
    return engine.shell(place, options.run, node, command)


def parser(engine: Engine) -> Parser:
    summary = "Open a shell, or run one command, in the job's environment and working directory."
    words = Parser("shell", summary, "A command and its arguments come after --.")
    words.add_argument(
        "--run", metavar="ID", default="", help=f"ID or path of the run; default: {engine.default_shell}"
    )
    add_point_option(words, engine, "0")
    words.add_argument("node", metavar="NODE", nargs="?", default="", help="rank of the node; default: 0")
    words.add_argument("--node", metavar="N", dest="named_node", default="0", help="same as NODE")
    return words


def _parse_node_number(text: str, nodes: int) -> int:
    node = number_or_none(text)
    if node is None or node >= nodes or text != str(node):
        title = f"node {text} does not exist"
        raise Failure(title, f"nodes are numbered from 0 to {nodes - 1}; put the command after --", 2)
    return node
