"""What stands between an engine and node.sh: what it hands on, and how it ends when node.sh has ended.

In   a stage, and the starts of an artifact
Out  sentences: a code that gets lost on its way to the engine, a number or a name that does not reach node.sh
"""

from __future__ import annotations

from collections.abc import Iterator

from .reading import RUN, Call, Ended, Stage, Start

OTHER_RUN = "/elsewhere/run"
CODES = (0, 65, 75)  # of which an engine makes three things: done, broken, and to be started again


def node_call(ended: Ended) -> Call | None:
    """How node.sh was called."""
    return next((call for call in ended.calls if call.name == "node.sh"), None)


def hands_on(stage: Stage, start: Start, file: str) -> Iterator[str]:
    """The run whose weights a new one begins with (--fork), as state/run has it, reaches the ranks; and no other."""
    for there in (OTHER_RUN, ""):
        environment = {**start.env, "JOBC_INIT_FROM": ""}
        ended = stage.end(start.words, environment, 0, {"state/run": f"attempt=0\ninit_from={there}\n"})
        node = node_call(ended)
        if node is None:
            yield f"{file} does not come to node.sh"
        elif node.env.get("JOBC_INIT_FROM", "") != there:
            yield f"{file}: the ranks are not told that the run begins with the weights of another one (--fork)"


def ends_alike(stage: Stage, start: Start, file: str) -> Iterator[str]:
    """With the code of node.sh, by which the engine decides whether to start again."""
    for code in CODES:
        status = stage.end(start.words, start.env, code).status
        if status != code:
            yield f"{file} ends with {status} when node.sh has ended with {code}"


def attempt_reaches(stage: Stage, start: Start, file: str) -> Iterator[str]:
    """Of a start whose words are `… RUN ATTEMPT …`; one without a run is told of elsewhere."""
    words = list(start.words)
    if RUN not in words[:-1]:
        return
    at = words.index(RUN) + 1
    words[at] = "3"
    node = node_call(stage.end(words, start.env, 0))
    if node is None or node.env.get("JOBC_ATTEMPT") != "3":
        yield f"{file}: node.sh is not told which attempt this is"
