"""What stands between an engine and node.sh: what it hands on, and how it ends when node.sh has ended.

In   a stage, and the starts of an artifact
Out  sentences: a code that gets lost on its way to the engine, a number or a name that does not reach node.sh
"""

from __future__ import annotations

from collections.abc import Iterator

from .reading import RUN, Call, Ended, Stage, Start
from .steps import OUTSIDE

OTHER_RUN = "/elsewhere/run"
CODES = (0, 65, 75)  # of which an engine makes three things: done, broken, and to be started again


def node_call(ended: Ended) -> Call | None:
    """How node.sh was called."""
    return next((call for call in ended.calls if call.name == "node.sh"), None)


def hands_on(stage: Stage, start: Start, file: str, outside: str = "") -> Iterator[str]:
    """The run whose weights a new one begins with (--fork), as state/run has it, reaches the ranks; and no other.

    outside: JOBC_INIT_FROM where the engine starts the file with variables of a shell, "" where it does not
    """
    for there in (OTHER_RUN, ""):
        environment = {**start.env, "JOBC_INIT_FROM": outside}
        ended = stage.end(start.words, environment, 0, {"state/run": f"attempt=0\ninit_from={there}\n"})
        yield from _first_weights(node_call(ended), file, there)


def keeps_out(stage: Stage, start: Start, file: str) -> Iterator[str]:
    """Of a file that makes the run itself: what a shell outside has in JOBC_INIT_FROM does not reach the ranks."""
    yield from _first_weights(node_call(stage.end(start.words, {**start.env, "JOBC_INIT_FROM": OUTSIDE}, 0)), file, "")


def _first_weights(node: Call | None, file: str, wanted: str) -> Iterator[str]:
    told = node.env.get("JOBC_INIT_FROM", "") if node else ""
    if node is None:
        yield f"{file} does not come to node.sh"
    elif told == OUTSIDE:
        yield f"{file} leaves JOBC_INIT_FROM as a shell outside has set it: the ranks would begin with other weights"
    elif told != wanted:
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
