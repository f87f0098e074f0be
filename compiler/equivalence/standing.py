"""What a process gets besides words, variables and folder: signals, streams, umask, limits, and whose process it is.

In   notes of stage.sh (jobc_stands), and how the engine's own script starts node.sh
Out  `FILE: what is not as it was given`
Only notes of one stage are compared: what the caller of jobc has, such as its own umask or limits, is in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from .reading import Call, Onward

RANKS, NODE = "what starts the ranks", "node.sh"
STREAMS = ("stdin", "stdout", "stderr")
OF_BACKGROUND = ("SIGINT", "SIGQUIT")  # which bash has a command ignore that it starts by `&`
PROCESS = "process"
_OWN = {"stdout": "the engine's stdout", "stderr": "the engine's stderr"}
_Facts = dict[str, str]


def standing_of(calls: Sequence[Call], name: str) -> str:
    return next((call.standing for call in calls if call.name == name), "")


def stands_otherwise(standings: Sequence[str], node: int, onward: Onward | None) -> Iterator[str]:
    """standings: as a Node has them; node: its number"""
    begun, given, started = map(_facts, standings)
    if onward is not None:
        yield from _of_engine(begun, given, onward, NODE, node)
    if given and started:
        yield from _differences(given, started, NODE, RANKS)


def passes_on(calls: Sequence[Call], onward: Onward, what: str) -> Iterator[str]:
    """Of another script between the engine and node.sh. what: the command that it starts"""
    yield from _of_engine(_facts(standing_of(calls, "begins")), _facts(standing_of(calls, what)), onward, what, 0)


def _of_engine(begun: _Facts, given: _Facts, onward: Onward, what: str, node: int) -> Iterator[str]:
    if not begun or not given:
        return
    streams = {"stdout": onward.stdout.format(node=f"{node:02d}"), "stderr": onward.stderr.format(node=f"{node:02d}")}
    wanted = {**begun, **streams}
    if not onward.is_exec:
        wanted |= {PROCESS: given[PROCESS], **{name: given[name] for name in OF_BACKGROUND if name in given}}
    yield from _differences(wanted, given, onward.file, what)


def _differences(wanted: Mapping[str, str], found: Mapping[str, str], file: str, what: str) -> Iterator[str]:
    for fact in dict.fromkeys((*wanted, *found)):
        must, has = wanted.get(fact, ""), found.get(fact, "")
        if must == has:
            continue
        if fact == PROCESS:
            yield f"{file}: {what} is a process below it, and must be its own (exec): else a signal does not reach it"
        elif fact in STREAMS:
            yield f"{file}: {fact} of {what} leads to {_OWN.get(has, has)}, and must lead to {_OWN.get(must, must)}"
        elif fact.startswith("SIG"):
            yield f"{file}: {what} {'ignores' if has else 'does not ignore'} {fact}, and must{'' if must else ' not'}"
        else:
            yield f"{file}: {fact} of {what} is {has}, and must be {must}"


def _facts(standing: str) -> _Facts:
    """Fact -> value, in words: `umask` -> `0022`, `SIGTERM` -> `ignored`, `open files (ulimit -n)` -> `1024`."""
    if not standing:
        return {}
    process, *streams = standing.splitlines()[:4]
    umask, *rest = standing.splitlines()[4:]
    facts = {PROCESS: process, **dict(zip(STREAMS, streams, strict=True)), "umask": umask}
    for line in rest:
        if limit := re.fullmatch(r"(.+?) +\((?:.*, )?(-\w)\) +(\S+)", line):
            facts[f"{limit[1]} (ulimit {limit[2]})"] = limit[3]
        elif signal := re.fullmatch(r"trap -- '' (?:SIG)?(\w+)", line):
            facts[f"SIG{signal[1]}"] = "ignored"
    return facts
