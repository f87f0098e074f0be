"""The check: what was read back, against .jobc/plan.txt, and two artifacts beside each other.

In   the files of an artifact directory
Out  Checked: every difference in words, every fact that was not compared with the reason
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...trainer.env import LAUNCHER_NAMES
from .. import pairs
from ..backend import CheckedVerbs, ReadableBackend
from ..compare import PLAN
from ..diagnostics import CompileError
from ..registry import plugin
from ..spans import spans
from . import expected
from .branches import other_ways
from .by_rank import by_rank
from .data_files import mistakes_in_data
from .launchers import Node, read_node
from .reading import Files, Rank, Reading, Unreadable
from .scripts import compared_keys, mistakes
from .stage import ScriptStage, refused_by_bash, stage
from .standing import stands_otherwise
from .steps import left_outside, missing
from .variables import OF_SHELL

MOST_STARTS = 4  # beyond these the first two and the last stand for those between, which differ in a number

ENGINE_SAYS = {
    "JOBC_HEAD_ADDR": "each engine has its own names for hosts",
    "JOBC_JOB_ID": "each engine numbers its jobs",
    "JOBC_NODE_LIST": "each engine has its own names for hosts",
    "JOBC_RUN_ID": "some engines name the run by their own number",
    "JOBC_GPU_TYPE": "only where no engine has chosen the nodes by it; compared with the plan as resources.gpu_type",
    "JOBC_HEAD_PORT": "0, or chosen by the engine where nodes share no folder; compared with the plan",
    "JOBC_RUN_ROOT": "only engines whose nodes make the run folder hand it on",
    **dict.fromkeys(LAUNCHER_NAMES, "the launcher gives each rank its own, after what was read"),
    "JOBC_TIME_LIMIT_S": "0 where a scheduler keeps the time; compared with the plan as lifecycle.time_limit_s",
}


_BUILT_OTHERWISE = (  # what a reader of plain data runs into when a file is not as its backend writes it
    LookupError, ValueError, TypeError, AttributeError, ArithmeticError, StopIteration, RecursionError, OSError,
)  # fmt: skip


class _Plan(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        raise Unreadable(f"{PLAN}: it has no {key}, so there is nothing to compare with")


@dataclass(frozen=True)
class Checked:
    """name: of the backend; differences: sentences, none when all is well; waived: fact -> why it was not compared.

    compared: facts that were; ranks: those of the nodes that were run; given: variables that the engine brings
    world_size: of the plan, 0 where the files could not be read to the end
    """

    name: str
    differences: tuple[str, ...]
    waived: Mapping[str, str]
    compared: tuple[str, ...]
    ranks: tuple[Rank, ...]
    given: frozenset[str]
    world_size: int = 0


def check(files: Mapping[str, str], trace: Path | None = None, thorough: bool = False) -> Checked:
    """files: path -> text, with lib/ or without; trace: as for ScriptStage. Whatever they hold, it raises nothing.

    thorough: also where this job does not go in node.sh (branches.py), and what the verbs do; takes a second or two
    """
    try:
        plan = _Plan(pairs.read(files[PLAN]))
        name = plan["backend.name"]
        backend = plugin(name).load()
    except (LookupError, ValueError, TypeError, Unreadable, CompileError):
        return _unreadable("", f"{PLAN}: it is not as jobc wrote it, so there is nothing to compare with")
    if not isinstance(backend, ReadableBackend):
        waived = {"all": f"backend {name} brings no reader of its files (Backend.read_back)"}
        return Checked(name, (), waived, (), (), frozenset())
    if refused := refused_by_bash(_emitted(files)):
        return _unreadable(name, *refused)
    try:
        return _compared(Files(files), trace, plan, backend, thorough)
    except Unreadable as error:
        return _unreadable(name, str(error))
    except _BUILT_OTHERWISE as error:
        return _unreadable(name, f"what {name} reads is not built as it reads it: {_words(error)}")


def _compared(
    files: Files, trace: Path | None, plan: Mapping[str, Any], backend: ReadableBackend, thorough: bool
) -> Checked:
    """Raises Unreadable, and what the reader of a file raises for one that is built in another way."""
    with stage(Files({p: text for p, text in files.items() if not p.startswith(".jobc/")}), trace) as place:
        reading = backend.read_back(place)
        chosen = _chosen(len(reading.starts))
        nodes = [_node(place, reading, index, left_outside(plan)) for index in chosen]
        wanted = expected.setup(plan, place)
    expectation = expected.Expectation(plan, files, backend.honours, reading, nodes)
    seen = (*reading.wrong, *mistakes(_emitted(files), plan), *mistakes_in_data(_emitted(files), plan))
    differences = [*expectation.differences(), *_setup(nodes, wanted), *missing(plan, nodes), *seen]
    differences += _standing(nodes, reading)
    if thorough and not differences:
        ways = {index: (reading.starts[index], node) for index, node in zip(chosen, nodes, strict=True)}
        differences += other_ways(_emitted(files), plan, ways)
        if isinstance(backend, CheckedVerbs):
            with stage(_emitted(files)) as place:
                verbs = backend.verbs()(place, plan)
                differences += verbs.wrong()
            expectation.compared |= verbs.compared
    expectation.compared |= compared_keys(_emitted(files))
    given = frozenset(name for start in reading.starts for name in start.env)
    ranks = tuple(rank for node in nodes for rank in node.ranks)
    compared = tuple(sorted(expectation.compared))
    told, world_size = tuple(by_rank(differences)), plan["topology.world_size"]
    return Checked(backend.name, told, expectation.waived(), compared, ranks, given, world_size)


def _emitted(files: Mapping[str, str]) -> Files:
    return Files({path: text for path, text in files.items() if not path.startswith(("lib/", ".jobc/"))})


def _unreadable(name: str, *why: str) -> Checked:
    return Checked(name, why, {}, (), (), frozenset())


def _words(error: Exception) -> str:
    """For a user, who knows the file and not our reader."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    if isinstance(error, (ValueError, OSError)) and str(error):
        return str(error).splitlines()[0]
    return "a part of it is of another kind, or missing"


def _chosen(count: int) -> list[int]:
    return list(range(count)) if count <= MOST_STARTS else [0, 1, count - 1]


def _node(place: ScriptStage, reading: Reading, index: int, outside: Mapping[str, str]) -> Node:
    """outside: variables of whatever started node.sh"""
    start = reading.starts[index]
    try:
        return read_node(place.run(start.words, {**outside, **start.env}), place.files)
    except Unreadable as error:
        raise Unreadable(f"start {index}: {error}") from None


def _setup(nodes: list[Node], wanted: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    for node in nodes:
        if node.setup != wanted:
            said = "; ".join(" ".join(words) for words in node.setup) or "nothing"
            plan = "; ".join(" ".join(words) for words in wanted) or "nothing"
            yield f"setup: the environment is made by {said}, in the plan by {plan}"
            return


def _standing(nodes: list[Node], reading: Reading) -> Iterator[str]:
    told = (stands_otherwise(node.standings, node.ranks[0].node, reading.onward) for node in nodes)
    yield from dict.fromkeys(what for of_node in told for what in of_node)


def beside(a: Checked, b: Checked) -> list[str]:
    """What the ranks of two artifacts of one job get differently, each once with all the ranks that it is true of."""
    mine, other = {rank.rank: rank for rank in a.ranks}, {rank.rank: rank for rank in b.ranks}
    found: dict[str, list[int]] = {}
    for number in sorted(mine.keys() & other.keys()):
        left, right = mine[number], other[number]
        for name in ("local_rank", "node", "world_size", "argv", "folder"):
            if getattr(left, name) != getattr(right, name):
                said = f"{name} is {_shown(left, name)} on {a.name}, {_shown(right, name)} on {b.name}"
                found.setdefault(said, []).append(number)
        for name in sorted((left.env.keys() | right.env.keys()) - set(ENGINE_SAYS) - a.given - b.given - OF_SHELL):
            values = left.env.get(name), right.env.get(name)
            if values[0] != values[1]:
                said = f"{name} is {values[0]!r} on {a.name}, {values[1]!r} on {b.name}"
                found.setdefault(said, []).append(number)
    if not mine.keys() & other.keys() and (mine or other):
        return [f"{a.name} and {b.name} have no rank in common"]
    return [f"rank{'s' * (len(ranks) > 1)} {spans(ranks)}: {said}" for said, ranks in found.items()]


def _shown(rank: Rank, name: str) -> str:
    value: Any = getattr(rank, name)
    return " ".join(value) if isinstance(value, tuple) else str(value)
