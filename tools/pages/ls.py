"""reference/ls.md: the options, JSON output and states of `jobc ls`, from runtime/verbs."""

from __future__ import annotations

from jobc.runtime.verbs.ls import OPTIONS
from jobc.runtime.verbs.run_list import KEYS, LISTED_STATES, RECORDED_STATES, STATES
from jobc.runtime.verbs.run_rows import MOST_FILES

from ._common import GENERATED, table


def page() -> str:
    options = [(f"`{name}`", text) for name, text in OPTIONS.items()]
    keys = [(f"`{name}`", text) for name, text in KEYS.items()]
    states = [
        (f"`{name}`", "ls, status" if name in RECORDED_STATES else "status", text) for name, text in STATES.items()
    ]
    return "\n".join(
        [
            "# jobc ls\n",
            GENERATED,
            INTRODUCTION,
            table(("option", "what it does"), *options),
            JSON,
            table(("key", "what it is"), *keys),
            "## States\n",
            table(("state", "printed by", "the run"), *states),
        ]
    )


def _printed_by(state: str) -> str:
    return "status" if state not in RECORDED_STATES else "ls" if state in LISTED_STATES else "ls, status"


INTRODUCTION = f"""\
`jobc ls` lists the runs of all jobs in `runs/` and in the run roots of the artifacts in `artifacts/`. `JOBC_RUN_ROOT`
overrides both. The most recently started run comes first. `jobc ls` only reads run folders; `jobc status` asks the
engine.

`SIZE` is the run folder's disk usage, as reported by `du`. A list counts at most {MOST_FILES:,} files, divided equally
among its runs; `>` marks a run with more files. `--limit` leaves more files for each run.
"""
JSON = """\
## JSON

`--format json` prints `schema` and `runs`, a list. `schema` is the version of this format, currently 1. It changes when
a key is removed or changes its meaning, not when a key is added.
"""
