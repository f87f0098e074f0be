"""Words in a command or an environment. They are literal text, or values that are known only at run time.

The types in this file have been stable since the first release. Backends define the spelling of each `RuntimeVar`;
shell_quoting.py quotes all other text.
"""

from enum import Enum, IntEnum
from typing import Literal

from ...runtime.system.frozen_dataclass import dataclass
from ..spec.runtime_references import REFERENCE


class Scope(IntEnum):
    """Scope in which text is evaluated. A value that is known in one scope is also known in all later scopes.

    SUBMIT: by jobctl submit.
    BATCH: once per job, in the engine's file.
    NODE: on each node, before launch.sh.
    RANK: in a rank.
    """

    SUBMIT = 0
    BATCH = 1
    NODE = 2
    RANK = 3


class RuntimeVar(Enum):
    """A value known only at run time. Every backend defines where it comes from and how it is spelled.

    The value is exported once as `JOBC_<NAME>`; inner scopes read only that variable.
    """

    JOB_ID = "the engine's ID of the job"
    RUN_ID = "ID of the run, folder name below RUN_ROOT/NAME"
    RUN_DIR = "absolute path of the run's folder"
    ATTEMPT = "0 for the first start of a run, one more for each requeue or resume"
    NODE_RANK = "0 to nodes - 1"
    HEAD_ADDR = "host name or address of node 0"
    HEAD_PORT = "TCP port of the rendezvous on node 0; 0 lets node 0 choose"

    @property
    def env_name(self) -> str:
        return f"JOBC_{self.name}"


class Concat(tuple["Word", ...]):
    """Several parts that form one word, such as RUN_DIR + "/data"."""


Word = str | RuntimeVar | Concat


@dataclass(frozen=True)
class Spelling:
    """How a backend reads a runtime variable.

    scope: the first scope in which it is known.
    text:  shell text evaluated there (`$SLURM_NODEID`), a field of the engine's file (`fieldRef` path), or text that
           the engine expands from variables listed before it (Kubernetes `$(NAME)`).
    form:  which of these three `text` is.
    """

    scope: Scope
    text: str
    form: Literal["shell", "field", "expand"] = "shell"


def parse_runtime_references(text: str) -> Word:
    """Return the text with each reference replaced by a runtime variable. The names are valid (JC1205)."""
    pieces = REFERENCE.split(text)  # text, name, text, name, text
    if len(pieces) == 1:
        return text
    return Concat(RuntimeVar[piece.upper()] if i % 2 else piece for i, piece in enumerate(pieces) if piece)


def find_runtime_vars(word: Word | tuple[Word, ...]) -> set[RuntimeVar]:
    if isinstance(word, RuntimeVar):
        return {word}
    if isinstance(word, tuple):
        return {variable for part in word for variable in find_runtime_vars(part)}
    return set()
