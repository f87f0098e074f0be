"""The base class of backends. To write one, read docs/extending/backend.md first and import from jobc.compiler.api.

A backend is a folder with `backend.py` (which defines `BACKEND`), `templates/`, `conf/backend/NAME.yaml` (the defaults
of its options) and `README.md`. Built-in backends are in backends/; other packages can provide more through the entry
point group `jobc.backends`. Both kinds use the same registry.py and the same conformance suite (compiler/testing/).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import Diagnostic
from ..emit.artifact import Artifact
from ..emit.render import Render
from ..emit.source_map import SpecValue
from ..plan.launch_plan import LaunchPlan
from ..plan.runtime_vars import RuntimeVar, Spelling
from ..spec.job_spec import JobSpec

ANY: Final = ("*",)  # in `honours`, stands for every value of the key
NODE_LAUNCHERS: Final = (
    "torchrun",
    "spawn",
    "accelerate",
    "torch_distributed_launch",
    "mpirun",
)  # launchers that jobctl starts by itself
VERBS = ("submit", "status", "logs", "stop", "preflight", "smoke", "shell", "clean")  # of jobctl


@dataclass(frozen=True)
class Point:
    """One of the compiled jobs in a sweep. files: path -> text"""

    options: Any
    files: Mapping[str, str]


@dataclass(frozen=True)
class Filled:
    """A value that a backend sets instead of the job's own.

    key: top-level spec key, such as `image`.
    by: the keys that determined the value.
    note: message to the user in case the value is unexpected.
    """

    key: str
    value: Any
    by: tuple[str, ...]
    note: Diagnostic | None = None


class Backend:
    """One launch engine. A backend overrides the methods that its engine needs.

    name:      the word after `backend=`, and the name of the folder in artifacts/NAME/.
    Options:   a frozen dataclass with the backend's own keys. It has only types and docs; the defaults are in
               conf/backend/NAME.yaml.
    spellings: for every RuntimeVar, the scope in which it is known and its spelling there.
    honours:   plan key -> supported values, which are words or ANY. `queue.*` means all keys in `queue`. A field at its
               neutral value (launch_plan.py) needs no entry.
    launch:    one line that tells people how to start the emitted files by hand.
    sends_code: whether code=snapshot is sent to nodes that cannot read the folders of the machine that submits.
    runs_here: whether the ranks run on the machine where jobctl submit runs.
    """

    name: str
    Options: type[Any]
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]]
    honours: ClassVar[Mapping[str, tuple[str, ...]]]
    launch: str
    sends_code: ClassVar[bool] = False
    runs_here: ClassVar[bool] = False

    def check(self, plan: LaunchPlan, options: Any) -> Iterable[Diagnostic]:
        """Yield the problems that `honours` cannot express, such as numbers and combinations. Must be pure. Codes are
        JC4xxx, or have the plugin's own prefix.
        """
        return ()

    def emit(self, plan: LaunchPlan, options: Any, render: Render) -> Iterable[Artifact]:
        """Return the engine's files. Must be pure and read nothing but its arguments.

        launch.sh, spec.yaml, train.json, jobctl and .jobc/job.json are added for every backend and must not be emitted.
        """
        return ()

    def engine_settings(self, plan: LaunchPlan, options: Any) -> Mapping[str, Any]:
        """Return the JSON values that the engine.py in jobctl reads from .jobc/job.json, besides the job's name. They
        override common values, such as `runs`.

        To let `jobc why` find the keys behind a line, return values that depend on the plan or the options as functions
        of the views, such as `of.options.partition`, or lists or mappings of such functions, as in Render.json().
        """
        return {}

    def filled(self, spec: JobSpec, options: Any, values: Mapping[str, SpecValue]) -> Iterable[Filled]:
        """Yield the keys to set: those the job leaves open, or with one possible value, such as a pod's image.

        values: spec key -> value and position.
        """
        return ()

    def keeps_order(self, path: tuple[str, ...]) -> bool:
        """Return whether a mapping keeps the user's key order instead of being sorted. path: below `backend`"""
        return False

    def shares_runs(self, spec: JobSpec, options: Any) -> bool:
        """Return whether all nodes share storage.root, so that storage.run=auto means `shared`, not `node`."""
        return True

    def starts_again(self, plan: LaunchPlan, options: Any) -> bool:
        """Return whether an engine that honours `lifecycle.max_requeues` requeues this job after its time limit."""
        return True

    def notice_s(self, plan: LaunchPlan) -> int:
        """Return how many seconds before the time limit, at most, the engine asks the ranks to save. With 0, the
        supervisor asks them at the limit, and they save after it.
        """
        return 0

    def sends(self, plan: LaunchPlan, options: Any) -> Mapping[str, str]:
        """Return key -> path (absolute, or from ~) of what jobctl submit uploads besides the code."""
        return {}

    def data_hint(self, plan: LaunchPlan, options: Any, path: Path) -> str:
        """Return settings that give the nodes a file or folder that is not sent with the code, or "" if the options
        already give them data. Called only if `sends_code`. path: absolute, or FOLDER for one that needs quotes
        """
        return ""

    def sweep_shape(self, point: Point) -> object:
        """Return a value that all points of one directory share; a different value means another directory."""
        return None

    def check_sweep(self, groups: Sequence[Sequence[Point]]) -> Iterable[Diagnostic]:
        """Yield the problems of a sweep whose points need several directories. groups: the points, by shape"""
        return ()

    def emit_sweep(self, points: Sequence[Point], render: Render) -> Iterable[Artifact]:
        """Return the files that replace the first point's files in a sweep's directory, for an engine that starts all
        points as one job. Otherwise, jobctl starts them one by one. render: renders the first point
        """
        return ()


class FileEmbeddingBackend(Backend):
    """A backend whose engine's file, such as a Kubernetes manifest, carries all files that the nodes read.

    The jobctl in the artifact directory then contains only the verbs.
    """

    def carry(self, files: Sequence[Artifact], settings: Artifact, program: bytes) -> Iterable[Artifact]:
        """Return the artifact directory's files.

        files: the files from emit(), and also launch.sh, spec.yaml and so on.
        settings: .jobc/job.json.
        program: jobctl for the nodes, executable and not compressed.
        """
        return files
