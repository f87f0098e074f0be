"""The protocol of a backend. Read docs/extending/backend.md first when you write one; import from jobc.compiler.api.

A backend is a folder with `backend.py` (a module-level `BACKEND`), `templates/`, `conf/backend/NAME.yaml` (the
defaults of its options) and `README.md`. Built-in ones lie in backends/, others come from any package through the
entry point group `jobc.backends`. Both go through registry.py and the conformance suite in compiler/testing/.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from ..diagnostics.diagnostic import Diagnostic
from ..emit.artifact import Artifact
from ..emit.render import Render
from ..emit.source_map import SourceMap, SpecValue
from ..plan.launch_plan import LaunchPlan
from ..plan.runtime_vars import RuntimeVar, Spelling
from ..spec.job_spec import JobSpec

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
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]]
    honours: ClassVar[Mapping[str, tuple[str, ...]]]
    launch: str

    def check(self, plan: LaunchPlan, options: Any) -> Iterable[Diagnostic]:
        """Check what `honours` cannot express: numbers and combinations. Pure; codes JC4xxx or the plugin's own
        letters.

        A subclass of Backend that has none of it inherits this one.
        """
        return ()

    def emit(self, plan: LaunchPlan, options: Any, render: Render) -> Iterable[Artifact]:
        """The engine's files and the verbs (VERBS). Pure: reads its arguments and nothing else.

        node.sh, spec.yaml, train.json, README.md, jobctl and lib/ are added for every backend and must not be emitted.
        A template that the backend's own folder lacks is taken from compiler/templates/, which has every verb but
        submit.sh for engines whose run folder the submit host sees and whose processes it may signal. A subclass of
        Backend that emits nothing but the verbs inherits this one.
        """
        return [render.template(f"{verb}.j2", verb, executable=True) for verb in VERBS]


@runtime_checkable
class DescribedBackend(Backend, Protocol):
    """A backend that says what its own files are. files: path -> a few words, for the README of the artifact."""

    files: Mapping[str, str]


@runtime_checkable
class OrderedBackend(Backend, Protocol):
    """A backend that makes lists of some mappings of its options. All others are emitted by their sorted keys."""

    def keeps_order(self, at: tuple[str, ...]) -> bool:
        """Return whether the mapping at this path keeps the user's key order. at: below `backend`"""


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
        """The files of that folder, submit.sh among them; jobctl and lib/ are added. render: of the first point."""


@runtime_checkable
class EngineBackend(Backend, Protocol):
    """A backend whose engine.py, which is packed into jobctl, wants to know more than the name of the job."""

    def engine_settings(self, plan: LaunchPlan, options: Any) -> Mapping[str, Any]:
        """JSON values for .jobc/job.json; they override the common ones, such as `runs`, the run root."""


@runtime_checkable
class NotifyingBackend(Backend, Protocol):
    """A backend whose engine counts the time to save within the limit: it asks the ranks to save before the limit is
    reached. With all others the supervisor asks at the limit, and the time to save comes on top.
    """

    def notice_s(self, plan: LaunchPlan) -> int:
        """Return the maximum time in seconds before the limit at which an attempt is asked to save."""


@runtime_checkable
class RecoveringBackend(Backend, Protocol):
    """A backend that honours `lifecycle.max_requeues` and has options with which its engine starts nothing again."""

    def starts_again(self, plan: LaunchPlan, options: Any) -> bool:
        """Return whether the engine requeues this job after its time limit."""


@runtime_checkable
class SeparateNodesBackend(Backend, Protocol):
    """A backend whose nodes have no file system in common but what the job mounts: machines of a cloud, pods."""

    def shares_runs(self, spec: JobSpec, options: Any) -> bool:
        """Return whether all nodes share storage.root, so that storage.run=auto means `shared`, not `node`."""


@dataclass(frozen=True)
class Filled:
    """A value that a backend sets in place of the job's.

    key: of the top of the spec, such as `image`; by: the keys that decided; note: reports what would surprise the user
    """

    key: str
    value: Any
    by: tuple[str, ...]
    note: Diagnostic | None = None


@runtime_checkable
class FillingBackend(Backend, Protocol):
    """A backend that has its own value for a key that the job leaves open, or that the engine can only have in one
    way: an image for pods, one node on one machine, the site's cores for a job that names none.
    """

    def filled(self, spec: JobSpec, options: Any, values: Mapping[str, SpecValue]) -> Iterable[Filled]:
        """values: spec key -> where it was set"""


@runtime_checkable
class SendingBackend(Backend, Protocol):
    """A backend whose submit.sh sends more of the submitting machine than the code."""

    def sends(self, plan: LaunchPlan, options: Any) -> Mapping[str, str]:
        """Key -> absolute path, or one below ~, of a file or folder there."""
