"""The plugin door: what a backend is. Read this file first when you write one (CONTRIBUTING.md has the steps).

A backend is a folder with `backend.py` (a module-level `BACKEND`), `templates/`, `conf/backend/NAME.yaml` (the
defaults of its options) and `README.md`. Built-in ones lie in backends/, others come from any package through the
entry point group `jobc.backends`. Both go through registry.py and the conformance suite in testing.py (golden.py:
its cases, trial.py: running what they compile to).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from .artifact import Artifact
from .diagnostics import Diagnostic
from .equivalence.reading import Reading, Stage
from .plan import LaunchPlan
from .render import Render
from .sourcemap import SourceMap
from .words import RuntimeVar, Spelling

if TYPE_CHECKING:
    from .equivalence.verbs import Verbs

ANY: Final = ("*",)  # in `honours`: every value of that key
NODE_LAUNCHERS: Final = (
    "torchrun",
    "spawn",
    "accelerate",
    "torch_distributed_launch",
    "mpirun",
)  # those that node.sh starts by itself
VERBS = ("submit.sh", "status.sh", "logs.sh", "stop.sh", "preflight.sh", "smoke.sh", "shell.sh", "clean.sh")


@runtime_checkable
class Backend(Protocol):
    """One launch engine.

    name:      the word after `backend=`, and the folder below artifacts/NAME/
    Options:   a frozen dataclass of the backend's own keys, types and docs only; defaults in conf/backend/NAME.yaml
    spellings: for every RuntimeVar, where the engine knows it and how it is written there
    honours:   plan key -> the values that this target can express: words, or ANY. `queue.*` means all below queue.
               A field at its neutral value (plan.py) asks for nothing and need not be listed
    launch:    one line for people: how the emitted files are started by hand
    """

    name: str
    Options: type[Any]
    spellings: Mapping[RuntimeVar, Spelling]
    honours: Mapping[str, tuple[str, ...]]
    launch: str

    def check(self, plan: LaunchPlan, options: Any) -> Iterable[Diagnostic]:
        """What `honours` cannot say: nodes, numbers, combinations. Pure; codes JC4xxx or the plugin's own letters."""

    def emit(self, plan: LaunchPlan, options: Any, render: Render) -> Iterable[Artifact]:
        """The engine's files and the verbs (VERBS). Pure: reads its arguments and nothing else.

        node.sh, train.json, spec.yaml, README.md and lib/ are added for every backend and must not be emitted.
        A template that the backend's own folder lacks is taken from compiler/templates/, which has every verb but
        submit.sh for engines whose run folder the submit host sees and whose processes it may signal.
        """


@runtime_checkable
class DescribedBackend(Backend, Protocol):
    """A backend that says what its own files are. files: path -> a few words, for the README of the artifact."""

    files: Mapping[str, str]


@runtime_checkable
class OrderedBackend(Backend, Protocol):
    """A backend that makes lists of some mappings of its options. All others are emitted by their sorted keys."""

    def keeps_order(self, at: tuple[str, ...]) -> bool:
        """Whether the keys of the mapping at this path stay in the user's order. at: below `backend`"""


@runtime_checkable
class ReadableBackend(Backend, Protocol):
    """A backend whose files can be read back, for the equivalence check."""

    def read_back(self, stage: Stage) -> Reading:
        """How the emitted files start the nodes, and what they say of the plan. Reads `stage` and nothing else; the
        check runs what it gives and compares. Unreadable for files that the engine would not take."""


@runtime_checkable
class CheckedVerbs(ReadableBackend, Protocol):
    """One whose verbs use the functions of trainer/rt/run.sh as ours do, so that the check can run them as well."""

    def verbs(self) -> type[Verbs]:
        """What they do; compiler/equivalence/verbs.py has what all have in common."""


@dataclass(frozen=True)
class Point:
    """One job of a sweep, compiled. place: its folder below the output folder; files: path -> text."""

    place: str
    plan: LaunchPlan
    options: Any
    files: Mapping[str, str]
    source_map: SourceMap


@runtime_checkable
class SweepingBackend(Backend, Protocol):
    """A backend that can also start all points of a sweep at once, from one more folder beside theirs."""

    def check_sweep(self, points: Sequence[Point]) -> Iterable[Diagnostic]:
        """Why these points cannot be started as one; their own folders remain. Nothing = they can."""

    def emit_sweep(self, points: Sequence[Point], render: Render) -> Iterable[Artifact]:
        """The files of that folder, submit.sh among them; lib/ is added. render: the views of the first point."""


@runtime_checkable
class NotifyingBackend(Backend, Protocol):
    """A backend whose engine counts the time to save within the limit: it asks the ranks to save before the limit is
    reached. With all others the supervisor asks at the limit, and the time to save comes on top.
    """

    def notice_s(self, plan: LaunchPlan) -> int:
        """How many seconds before its limit an attempt is asked to save, at most: so much of it does not train."""


@runtime_checkable
class RecoveringBackend(Backend, Protocol):
    """A backend that honours `lifecycle.max_requeues` and has options with which its engine starts nothing again."""

    def starts_again(self, plan: LaunchPlan, options: Any) -> bool:
        """Whether the engine starts this job again after its time limit."""


@runtime_checkable
class SendingBackend(Backend, Protocol):
    """A backend whose submit.sh sends more of the submitting machine than the code."""

    def sends(self, plan: LaunchPlan, options: Any) -> Mapping[str, str]:
        """Key -> absolute path, or one below ~, of a file or folder there."""
