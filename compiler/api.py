"""The public API for backend plugins: `from jobc.compiler.api import …` is the only import from jobc that backend code
needs.

These names keep their meaning from release to release; everything else in jobc may change. A plugin's tests import from
jobc.compiler.testing.suite. Read docs/extending/backend.md first.
"""

from .diagnostics.diagnostic import Diagnostic, Severity, nearest
from .emit.artifact import Artifact
from .emit.render import Given, Leaf, Omit, Render, of
from .plan.launch_plan import LaunchPlan
from .plan.runtime_vars import RuntimeVar, Scope, Spelling
from .plan.shell_quoting import ShellCode, sh
from .plugins.backend import (
    ANY,
    NODE_LAUNCHERS,
    VERBS,
    Backend,
    Filled,
    Point,
)
from .rules import findings, run_all
from .spec.value_types import Bytes, Count, CountOrZero, Duration, Path

__all__ = [
    "ANY",
    "NODE_LAUNCHERS",
    "VERBS",
    "Artifact",
    "Backend",
    "Bytes",
    "Count",
    "CountOrZero",
    "Diagnostic",
    "Duration",
    "Filled",
    "Given",
    "LaunchPlan",
    "Leaf",
    "Omit",
    "Path",
    "Point",
    "Render",
    "RuntimeVar",
    "Scope",
    "Severity",
    "ShellCode",
    "Spelling",
    "findings",
    "nearest",
    "of",
    "run_all",
    "sh",
]
