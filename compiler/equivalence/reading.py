"""What is read back from the emitted files: how an engine starts the nodes, and what each rank gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

RUN, ARTIFACT, PROJECT = "<run>", "<artifact>", "<project>"  # instead of folders, which differ from engine to engine


@dataclass(frozen=True)
class Call:
    """One command that a script has called. env: what was exported; standing: as standing.py reads it, mostly ""."""

    words: tuple[str, ...]
    folder: str
    env: Mapping[str, str]
    standing: str = ""

    @property
    def name(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""


@dataclass(frozen=True)
class Ended:
    """How a program ended. status: its exit status; said: what it wrote to stdout; told: to stderr."""

    status: int
    said: str
    calls: tuple[Call, ...]
    told: str = ""

    def called(self, *words: str) -> bool:
        """Whether a command was called with these words first."""
        return any(call.words[: len(words)] == words for call in self.calls)


@dataclass(frozen=True)
class Start:
    """What an engine does on one node, or for one rank. host: where, None = the engine decides."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    host: str | None = None


@dataclass(frozen=True)
class Onward:
    """How a script starts what comes behind it. `{node}` in a stream is the node's number, with two digits.

    file: the script; is_exec: in its own process; stdout, stderr: where they lead, as jobc_see in stage.sh has it
    """

    file: str
    is_exec: bool = True
    stdout: str = "stdout"
    stderr: str = "stderr"


@dataclass(frozen=True)
class Reading:
    """What an engine's own files say.

    starts: one for each node in rank order, or for each rank where the engine starts those
    head:   the address of node 0 as the other nodes know it
    facts:  plan key -> value as those files have it, in the plan's own units
    waived: plan key -> a sentence: why these files cannot say it, or say something else
    wrong:  what is not right among these files, though the job would start: `FILE: what is wrong`
    extra:  what they have and only `backend.extra` puts there, by its name below that key -> another key that may ask
            for it, "" for none
    onward: how node.sh is started, None = what it gets besides words, folder and variables is not compared
    """

    starts: tuple[Start, ...]
    head: str
    facts: Mapping[str, Any]
    waived: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    onward: Onward | None = None


class Stage(Protocol):
    """Where scripts are run and files are read. See stage.py."""

    files: Mapping[str, str]

    def run(self, words: Iterable[str], env: Mapping[str, str] | None = None) -> list[Call]: ...

    def end(
        self, words: Iterable[str], env: Mapping[str, str], code: int, there: Mapping[str, str] | None = None
    ) -> Ended: ...


class Unreadable(Exception):
    """A file that is not as an engine would take it: which, and why."""


class Files(dict[str, str]):
    """path -> text. A file that is not there is Unreadable."""

    def __missing__(self, path: str) -> str:
        raise Unreadable(f"{path} is not there")


@dataclass(frozen=True)
class Meeting:
    """Where the ranks meet. timeout: s, "" = the launcher has no option for it; backend: as torchrun names it."""

    address: str
    port: str
    timeout: str
    backend: str = "static"

    @property
    def place(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Rank:
    """What one rank gets. argv: without the interpreter's path."""

    rank: int
    local_rank: int
    node: int
    world_size: int
    argv: tuple[str, ...]
    folder: str
    env: Mapping[str, str]
    rendezvous: Meeting
