"""scripts.md: what the verbs of a backend may call, out of the comments in trainer/rt."""

from __future__ import annotations

import re

from ._common import GENERATED, ROOT, table

FUNCTIONS = {  # what a verb of a backend may call; each says in the comment above it what it does
    "Every script": ("this_job", "show_help", "bad_option", "need_value", "check_node", "die", "try", "key"),
    "A new run": (
        "create_run",
        "under_project",
        "snapshot_code",
        "describe_run",
        "keep_run",
    ),
    "A run that exists": ("choose_run", "list_runs", "last_attempt", "is_live"),
    "Its next attempt": ("choose_continued_run", "continue_run"),
    "How it is": (
        "run_status",
        "run_code",
        "node_files",
    ),
    "A run for a moment, as for smoke.sh": ("create_temporary_run",),
}


def page() -> str:
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "trainer" / "rt").glob("*.sh")))
    out = ["# Functions of run.sh\n", GENERATED, SCRIPTS]
    for heading, names in FUNCTIONS.items():
        rows = [_function(name, text) for name in names]
        out += [f"## {heading}\n", table(("function", "what it does"), *rows)]
    return "\n".join(out)


def _function(name: str, text: str) -> tuple[str, str]:
    """Its first comment line, `# NAME ARGUMENTS: what it does`, which may go on in the next ones."""
    match = re.search(rf"^# ({name}\b[^:\n]*)(?:: (.*(?:\n# .*)*))?\n{name}\(\) ", text, re.MULTILINE)
    assert match, f"no comment `# {name} …` above {name}() in trainer/rt/*.sh"
    return f"`{match[1]}`", (match[2] or "").replace("\n# ", " ")


SCRIPTS = """\
Functions that the scripts of a backend may call after `source …/rt/run.sh`, in templates such as `submit.sh.j2`. All
need bash with `set -euo pipefail`. Call `this_job` first; it sets `artifact` (the folder of the script), `project`
(which holds `artifacts/`) and `runs` (of this job). The functions that create or choose a run set `run` and `attempt`.
"""
