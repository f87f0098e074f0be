"""Open a shell, or run one command, in the environment and the folder in which a job runs.

Usage  jobctl shell [--run ID] [NODE | --node NODE] [-- COMMAND ARGUMENT…]
         --run ID  with the code of that run; default: the newest run's, or the code as it is now if there is none
         NODE      rank of the node; default: 0
Exit   that of the command; 2 for an invalid option
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..engines.checking import CheckingEngine, become_shell
from ..engines.engine import Failure
from ..engines.values import number
from .command import Parser
from .ending_signals import call_until_ended
from .jobs import Place


def main(argv: list[str]) -> int:
    """Return the exit code."""
    return call_until_ended(shell, argv)


def shell(argv: list[str]) -> int:
    words, command = argv, []
    if "--" in argv:
        first = argv.index("--")
        words, command = argv[:first], argv[first + 1 :]
    parser = Parser("shell.sh")
    parser.add_argument("--run", default="")
    parser.add_argument("node", nargs="?", default="")
    parser.add_argument("--node", dest="named_node", default="0")
    options = parser.parse_args(words)
    place = Place(Path(sys.argv[0]).parent)
    engine, rank = place.engine(), options.node or options.named_node
    if not isinstance(engine, CheckingEngine):
        become_shell(place, options.run, _node(rank, place.job.nodes), command)
    node = _node(rank, engine.shell_nodes(place, options.run))
    return engine.shell(place, options.run, node, command)


def _node(text: str, nodes: int) -> int:
    node = number(text)
    if node is None or node >= nodes or text != str(node):
        title = f"there is no node {text}"
        raise Failure(title, f"nodes are 0 to {nodes - 1}; a command comes after --", 2)
    return node
